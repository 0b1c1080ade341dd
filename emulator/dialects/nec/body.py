# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse CDIM's layout-apply body, strictly, in the spelling of the emulated generation.

Errors have CDIM's form.

======== ====== ==========================================================
code     status meaning
======== ====== ==========================================================
E40001   400    the body is not valid
E40010   409    an apply is running, and there is one at a time
E40020   404    no apply has this id
notFound 404    no resource has this id
======== ====== ==========================================================
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from aiohttp import web

INVALID: t.Final = "E40001"
BUSY: t.Final = "E40010"
UNKNOWN_APPLY: t.Final = "E40020"
UNKNOWN_RESOURCE: t.Final = "notFound"
KEYS: t.Final = {
    "adapters": ("sourceDeviceID", "destinationDeviceID"),
    "cpus": ("targetCPUID", "targetDeviceID"),
}


class NecError(Exception):
    """An error of the reply."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    def response(self) -> web.Response:
        """Return the reply."""
        return web.json_response({"code": self.code, "message": str(self)}, status=self.status)


@dataclass(frozen=True, slots=True)
class Procedure:
    """One operation of an apply. ``after``: numbers of the operations that must be done before."""

    number: int
    operation: str
    source: str
    device: str
    after: tuple[int, ...]


def procedures(body: t.Any, generation: str) -> tuple[Procedure, ...]:
    """Parse the procedures of a request. Raises NecError."""
    found = body.get("procedures") if isinstance(body, dict) else None
    if not isinstance(found, list) or not found:
        raise _invalid("procedures", "it must be a list and not empty")
    made = tuple(_procedure(entry, f"procedures[{n}]", KEYS[generation]) for n, entry in enumerate(found))
    numbers = [p.number for p in made]
    if len(set(numbers)) != len(numbers):
        raise _invalid("procedures", "an operationID appears twice")
    if any(not set(p.after) <= set(numbers[:n]) for n, p in enumerate(made)):
        raise _invalid("procedures", "dependencies must be operationIDs of earlier procedures")
    return made


def _procedure(entry: t.Any, where: str, keys: tuple[str, str]) -> Procedure:
    wanted = {"operationID", "operation", "dependencies", *keys}
    if not isinstance(entry, dict) or entry.keys() != wanted:
        raise _invalid(where, f"it must be an object with {', '.join(sorted(wanted))}")
    if not isinstance(entry["operationID"], int) or isinstance(entry["operationID"], bool):
        raise _invalid(f"{where}.operationID", "it must be a whole number")
    if entry["operation"] not in ("connect", "disconnect"):
        raise _invalid(f"{where}.operation", "it must be connect or disconnect")
    for key in keys:
        if not isinstance(entry[key], str) or not entry[key]:
            raise _invalid(f"{where}.{key}", "it must be a text and not empty")
    after = entry["dependencies"]
    if not isinstance(after, list) or not all(isinstance(n, int) for n in after):
        raise _invalid(f"{where}.dependencies", "it must be a list of whole numbers")
    return Procedure(entry["operationID"], entry["operation"], entry[keys[0]], entry[keys[1]], tuple(after))


def _invalid(where: str, why: str) -> NecError:
    return NecError(400, INVALID, f"{where}: {why}")
