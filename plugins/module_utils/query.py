# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter a result with JMESPath before it is returned."""

from __future__ import annotations

import typing as t

from .fabric.errors import BadConfiguration

try:
    import jmespath

    HAS_JMESPATH = True
except ImportError:
    HAS_JMESPATH = False


def search(answer: t.Any, query: str) -> t.Any:
    """Return the result of a JMESPath expression. Raise BadConfiguration."""
    if not HAS_JMESPATH:
        raise BadConfiguration("query", query, "it needs the Python library jmespath. Install it")
    untyped: t.Any = jmespath.search
    try:
        return untyped(query, answer)
    except jmespath.exceptions.JMESPathError as error:
        said = " ".join(str(error).split())
        raise BadConfiguration("query", query, f"it must be a JMESPath expression: {said}") from None
    # Some functions of jmespath do not check their arguments.
    except (TypeError, ValueError, AttributeError) as error:
        raise BadConfiguration("query", query, f"a function in it cannot use its arguments: {error}") from None
