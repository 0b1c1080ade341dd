# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text form of the operation handles of an asynchronous manager, one handle a line.

The annotation ``composable.infra/operation`` and the module option ``handle`` contain this text. A
process of another release may read it. It ignores unknown keys, and waits for no operation with a
handle of another version.
"""

from __future__ import annotations

import typing as t

from ..errors import Uncertain

VERSION: t.Final = 1
"""Version in a handle's key ``version``. Increase it only if older releases must not read it."""


def written(handles: tuple[str, ...]) -> str:
    """Return the handles as one text, empty without handles."""
    return "\n".join(handles)


def read(text: str) -> tuple[str, ...]:
    """Return the handles in a text from ``written``."""
    return tuple(text.split("\n")) if text else ()


def check_version(told: t.Mapping[str, t.Any]) -> None:
    """Raise Uncertain if a handle has a version that this release does not understand.

    Args:
        ``told``: The document of a handle. Without a version it is older than versions.
    """
    version = told.get("version", VERSION)
    if version != VERSION:
        raise Uncertain(
            f"cannot wait for an operation that another release began: its version is {version!r} and this release "
            f"reads version {VERSION}. Run the other release, or remove the annotation composable.infra/operation "
            "after the CDI Manager has ended the operation"
        )
