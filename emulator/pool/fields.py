# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a YAML mapping field by field, so that each error can name its field."""

from __future__ import annotations

import re
import typing as t
import uuid
from collections.abc import Sequence


class SpecError(ValueError):
    """A field of the fabric's document is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class Fields:
    """A mapping at ``where`` with only the ``allowed`` keys. None counts as absent.

    The methods raise SpecError for a value that is not allowed.
    """

    def __init__(self, value: t.Any, where: str, allowed: Sequence[str]) -> None:
        if not isinstance(value, dict):
            raise SpecError(where, f"it must be a mapping with {', '.join(allowed)}")
        for key in value:
            if key not in allowed:
                raise SpecError(where, f"{key!r} is not a known key. Allowed are {', '.join(allowed)}")
        self.where = where
        self._value = {key: entry for key, entry in value.items() if entry is not None}

    def at(self, key: str) -> str:
        """Return the place of ``key``, for messages."""
        return f"{self.where}.{key}"

    def has(self, key: str) -> bool:
        """Return whether ``key`` is given."""
        return key in self._value

    def value(self, key: str) -> t.Any:
        """Return the value as it is, None if it is absent."""
        return self._get(key)

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text that is not empty."""
        value = self._get(key, default)
        if not isinstance(value, str) or not value:
            raise SpecError(self.at(key), f"it must be a text and not empty, but is {value!r}")
        return value

    def uuid(self, key: str, default: str) -> str:
        """Return a UUID in its usual form."""
        text = self.text(key, default)
        try:
            return str(uuid.UUID(text))
        except ValueError:
            raise SpecError(self.at(key), f"it must be a UUID, not {text!r}") from None

    def hexadecimal(self, key: str, default: str) -> str:
        """Return four hexadecimal digits, as in PCI ids."""
        value = self._get(key, default)
        if not isinstance(value, str) or not re.fullmatch("[0-9a-fA-F]{4}", value):
            raise SpecError(self.at(key), f"it must be four hexadecimal digits in quotes, not {value!r}")
        return value.lower()

    def flag(self, key: str, default: bool = False) -> bool:
        """Return true or false."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise SpecError(self.at(key), f"it must be true or false, not {value!r}")
        return value

    def one_of(self, key: str, allowed: Sequence[str], default: str | None = None) -> str:
        """Return one of the ``allowed`` texts."""
        value = self._get(key, default)
        if value not in allowed:
            raise SpecError(self.at(key), f"{value!r} is not allowed. Allowed are {', '.join(filter(None, allowed))}")
        return str(value)

    def number(self, key: str, default: float, least: float = 0.0) -> float:
        """Return a number of at least ``least``."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= least:
            raise SpecError(self.at(key), f"it must be a number of at least {least:g}, not {value!r}")
        return float(value)

    def signed(self, key: str, default: float = 0.0) -> float:
        """Return a number that may be below 0."""
        return self.number(key, default, least=-1e9)

    def integer(self, key: str, default: int | None = None) -> int:
        """Return a whole number from 0."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise SpecError(self.at(key), f"it must be a whole number from 0, not {value!r}")
        return value

    def texts(self, key: str, default: list[str]) -> list[str]:
        """Return a list of texts."""
        value = self._get(key, default)
        if not isinstance(value, list) or not all(isinstance(entry, str) and entry for entry in value):
            raise SpecError(self.at(key), "it must be a list of texts")
        return value

    def mapping(self, key: str) -> dict[str, str]:
        """Return texts by name."""
        value = self._get(key, {})
        if not isinstance(value, dict) or not all(isinstance(x, str) for pair in value.items() for x in pair):
            raise SpecError(self.at(key), "it must be a mapping of texts")
        return value

    def fields(self, key: str, allowed: Sequence[str]) -> Fields:
        """Return a mapping below this one, empty if it is absent."""
        return Fields(self._get(key, {}), self.at(key), allowed)

    def list_of(self, key: str, allowed: Sequence[str]) -> list[Fields]:
        """Return a list of mappings, empty if it is absent."""
        return [Fields(entry, f"{self.at(key)}[{n}]", allowed) for n, entry in enumerate(self.entries(key))]

    def entries(self, key: str) -> list[t.Any]:
        """Return a list as it is, empty if it is absent."""
        value = self._get(key, [])
        if not isinstance(value, list):
            raise SpecError(self.at(key), "it must be a list")
        return value

    def _get(self, key: str, default: t.Any = None) -> t.Any:
        return self._value.get(key, default)
