# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the bodies of CM's resize.

The check is strict, so that a client that drifts from the format fails here first.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..shared.fsas.errors import FsasError

INCREASE: t.Final = "increase_resource_count"
REMOVE: t.Final = "remove_resources"


@dataclass(frozen=True, slots=True)
class Resize:
    """A resize. ``count``: devices of the resspec ``spec`` after it.

    ``devices``: ids of devices to remove.
    """

    spec: str
    count: int
    devices: tuple[str, ...] = ()


def resize(body: t.Any) -> Resize:
    """Parse a body of either form. Raises FsasError."""
    if not isinstance(body, dict) or len(body) != 1 or not {INCREASE, REMOVE} & body.keys():
        raise FsasError.malformed("body", f"it must be an object with either {INCREASE} or {REMOVE}")
    (where, inner), = body.items()
    wanted = {"spec_uuid", "device_count"} | ({"devices"} if where == REMOVE else set())
    if not isinstance(inner, dict) or inner.keys() != wanted:
        raise FsasError.malformed(where, f"it must be an object with {', '.join(sorted(wanted))}")
    return Resize(_text(inner, "spec_uuid", where), _count(inner, where), _devices(inner, where))


def _text(inner: dict[str, t.Any], key: str, where: str) -> str:
    value = inner[key]
    if not isinstance(value, str) or not value:
        raise FsasError.malformed(f"{where}.{key}", "it must be a text and not empty")
    return value


def _count(inner: dict[str, t.Any], where: str) -> int:
    value = inner["device_count"]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise FsasError.malformed(f"{where}.device_count", "it must be a whole number from 0")
    return value


def _devices(inner: dict[str, t.Any], where: str) -> tuple[str, ...]:
    if where != REMOVE:
        return ()
    found = inner["devices"]
    if not isinstance(found, list) or not found or not all(isinstance(d, str) and d for d in found):
        raise FsasError.malformed(f"{where}.devices", "it must be a list of texts and not empty")
    if len(set(found)) != len(found):
        raise FsasError.malformed(f"{where}.devices", "the list names a device twice")
    return tuple(found)
