# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of values that a store keeps instead of the watched object, and one that could not be read."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

__all__ = ["Json", "Unreadable", "Value", "filled", "value"]
if t.TYPE_CHECKING:
    from dataclasses import dataclass as value
else:

    def value(**options: bool) -> t.Any:
        """Make a dataclass that the type checker sees as frozen.

        A dataclass that is frozen at run time takes several times as long to make, and a cluster's
        objects are made again with each change. ``options`` are those of ``dataclass``.
        """
        return dataclass(**{**options, "frozen": False, "unsafe_hash": True})


Json = dict[str, t.Any]
"""A raw JSON object."""


class Value:
    """``namespace`` is empty for an object of the whole cluster.

    ``version`` is the resourceVersion. Two values of different versions may be equal: then nothing
    has changed for anyone who reads them.
    """

    __slots__ = ()
    namespace: str
    name: str
    version: str

    def as_object(self) -> Json:
        """Return the object as JSON. Fields that no reader uses may be missing."""
        raise NotImplementedError


def filled(fields: Json) -> Json:
    """Return the fields that are not empty."""
    return {name: value for name, value in fields.items() if value}


@value(frozen=True, slots=True)
class Unreadable(Value):
    """An object of which no value could be read. ``error`` says why, ``whole`` is the object."""

    namespace: str
    name: str
    version: str = field(compare=False)
    error: Exception = field(compare=False)
    whole: Json

    def as_object(self) -> Json:
        """Return the object as it came."""
        return self.whole
