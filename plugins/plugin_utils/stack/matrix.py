# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version matrix, read once, with lookup by dotted path and numeric version comparison."""

from __future__ import annotations

import copy
import functools
import re
import typing as t
from pathlib import Path

import yaml

FILE = Path(__file__).with_name("matrix.yml")
_NUMBERS = re.compile(r"\d+")


class UnknownPath(LookupError):
    """A path that the matrix does not have. The text names the existing keys."""


@functools.cache
def _loaded() -> t.Any:
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


def matrix() -> dict[str, t.Any]:
    """Return a copy of the whole matrix."""
    found: dict[str, t.Any] = copy.deepcopy(_loaded())
    return found


def lookup(path: str) -> t.Any:
    """Return the value at the dotted path (`charts.nfd.version`). Raise UnknownPath."""
    here: t.Any = matrix()
    for done, part in enumerate(path.split(".") if path else ()):
        if not isinstance(here, dict) or part not in here:
            raise UnknownPath(_explain(path, path.split(".")[:done], here))
        here = here[part]
    return here


def _explain(path: str, above: list[str], here: t.Any) -> str:
    where = f"{'.'.join(above)!r}" if above else "its top level"
    what = f"the matrix has {', '.join(sorted(map(str, here)))}" if isinstance(here, dict) else "there is only a value"
    return f"the version matrix has nothing at {path!r}: below {where} {what}"


def numbers(version: t.Any) -> tuple[int, ...]:
    """Return the numbers of a version's release part, or an empty tuple.

    `v26.7.0-rc.1` is (26, 7, 0).
    """
    release = re.split(r"[-+]", str(version or ""), maxsplit=1)[0]
    return tuple(int(part) for part in _NUMBERS.findall(release))


def at_least(version: t.Any, floor: t.Any) -> bool:
    """Return whether the version is ``floor`` or later. Missing numbers are 0 (1.34 is 1.34.0)."""
    have, want = numbers(version), numbers(floor)
    width = max(len(have), len(want))
    return have + (0,) * (width - len(have)) >= want + (0,) * (width - len(want))


def series(version: t.Any) -> str:
    """Return major and minor version: `1.36` for `v1.36.3+rke2r1`."""
    return ".".join(str(part) for part in numbers(version)[:2])
