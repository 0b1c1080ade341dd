# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read switches and their ports. Only a reading of the whole fabric waits for them."""

from __future__ import annotations

import threading
import time
import typing as t
from dataclasses import dataclass

from ...errors import FabricError
from ...operations.parallel import outcomes
from ..shared.redfish.resources import FabricResource, Port, SwitchResource
from ..shared.redfish.service import Service
from .model.resource_tree import SwitchTree

# Seconds between readings, as people move cables rarely. After an error the pause is shorter.
SECONDS: t.Final = 300.0
RETRY: t.Final = 60.0


@dataclass(frozen=True, slots=True)
class _Kept:
    """A reading. ``end`` is its last moment on the monotonic clock.

    ``problem`` says why nothing newer could be read.
    """

    end: float = 0.0
    switches: tuple[SwitchTree, ...] = ()
    problem: str = ""


class SwitchReader:
    """Reader with a cache. Thread-safe."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def of(self, fabric: FabricResource) -> tuple[SwitchTree, ...]:
        """Return the switches of one fabric. If reading fails, return the previous switches.

        So cables never make a reading of the fabric fail.
        """
        with self._lock:
            known = self._kept.get(fabric.uri, _Kept())
        if fabric.switches is None or known.end > time.monotonic():
            return known.switches
        try:
            new = _Kept(time.monotonic() + SECONDS, self._read(fabric.switches))
        except FabricError as error:
            new = _Kept(time.monotonic() + RETRY, known.switches, error.message)
        with self._lock:
            self._kept[fabric.uri] = new
        return new.switches

    def problem(self, fabric: FabricResource) -> str:
        """Return why the switches of a fabric may be old or unknown, or an empty text."""
        with self._lock:
            return self._kept.get(fabric.uri, _Kept()).problem

    def _read(self, uri: str) -> tuple[SwitchTree, ...]:
        switches = self._service.members(SwitchResource, uri)
        found = []
        for switch, ports in zip(switches, outcomes(self._ports, switches), strict=True):
            if isinstance(ports, FabricError):
                raise ports
            found.append(SwitchTree(switch, ports))
        return tuple(found)

    def _ports(self, switch: SwitchResource) -> tuple[Port, ...]:
        return self._service.members(Port, switch.ports)
