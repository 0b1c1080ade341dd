# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the fields of a change. Each error names the field, its value and the allowed values."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping

from ..config import BadConfig
from .capture import Capture

MOST: t.Final = 100_000
SHOWN: t.Final = 20


class BadChange(BadConfig):
    """A change does not fit the capture. The message names the field, its value and the allowed
    values."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}: {value!r} is not usable: {allowed}")


def listed(known: Collection[t.Any]) -> str:
    """Return names for a sentence, at most SHOWN."""
    names = [str(each) for each in known]
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


class Options:
    """Fields of one change. A field that is None counts as not given.

    ``where`` names the change in errors, such as ``changes[0]``. All methods raise BadChange.
    """

    def __init__(self, given: Mapping[str, t.Any], where: str) -> None:
        self.given, self.where = {key: value for key, value in given.items() if value is not None}, where

    def only(self, change: str, fields: Collection[str]) -> None:
        """Refuse fields that the change does not use."""
        for key, value in self.given.items():
            if key not in ("change", *fields):
                raise BadChange(f"{self.where}.{key}", value, f"{change} takes {', '.join(fields)}")

    def bad(self, field: str, allowed: str) -> BadChange:
        """Return the error of a field."""
        return BadChange(f"{self.where}.{field}", self.given.get(field), allowed)

    def count(self, field: str = "count", default: int | None = None, most: int = MOST) -> int:
        """Return a whole number from 1 to ``most``."""
        value = self.given.get(field, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise self.bad(field, f"must be a whole number from 1 to {most}")
        return value

    def one_of(self, field: str, known: Collection[t.Any], default: t.Any = None) -> t.Any:
        """Return a known value. If none is given and only one is known, return that value."""
        value = self.given.get(field, default)
        if value is None and len(known) == 1:
            return next(iter(known))
        if isinstance(value, (dict, list)) or value not in known:
            raise self.bad(field, f"must be one of {listed(known)}" if known else "the capture has none to choose from")
        return value

    def names(self, field: str) -> list[str]:
        """Return a list of at least one name."""
        value = self.given.get(field)
        if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
            raise self.bad(field, "must be a list of names with at least one name")
        return value


class Change(t.Protocol):
    """A change that can be applied to any capture."""

    def made(self, capture: Capture) -> Capture:
        """Return the capture after the change."""
