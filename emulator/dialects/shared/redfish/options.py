# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of a Redfish service in the fabric's document.

::

    settings:
      redfish:
        dialects: [AddResourceBlock, Connections, Compose]   # offered ways to attach, also Zones
        asynchronous: false     # answer changes with 202 and a task monitor
        keeps_tasks: true       # false: a restart forgets all tasks, and their numbers begin with 1 again
        etags: true             # send ETags and require them
        strict_etags: false     # AddResourceBlock needs the system's ETag too
        one_sided: false        # blocks name their system, the system lists no blocks
        page: 0                 # members of one page of a collection, 0 for all
        expand: true            # offer $expand
        reset_types: [On, ForceOff, GracefulShutdown, GracefulRestart, ForceRestart]   # of ComputerSystem.Reset
        power_seconds: 0.0      # seconds of each step when a machine is switched
        ignores_shutdown: false # machines ignore a graceful shutdown or restart
        attach_off: false       # attach and detach only while the machine is off
      sunfish:                  # the same settings, and
        agents: true            # false: clients request numbers of devices, as CoHDI does
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ....pool.fabric_spec import FabricSpec
from ....pool.fields import Fields, SpecError
from ...managers import MANAGERS

ADD_BLOCK: t.Final = "AddResourceBlock"
CONNECTIONS: t.Final = "Connections"
ZONES: t.Final = "Zones"
COMPOSE: t.Final = "Compose"
RESETS: t.Final = ["On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart"]
DIALECTS: t.Final = (ADD_BLOCK, CONNECTIONS, ZONES, COMPOSE)


@dataclass(frozen=True, slots=True)
class Options:
    """Checked settings. Without ``dialects``, devices are shown and cannot be moved."""

    dialects: frozenset[str]
    asynchronous: bool = False
    keeps_tasks: bool = True
    etags: bool = True
    strict_etags: bool = False
    one_sided: bool = False
    page: int = 0
    expand: bool = True
    agents: bool = True
    reset_types: tuple[str, ...] = ()
    power_seconds: float = 0.0
    ignores_shutdown: bool = False
    attach_off: bool = False

    @classmethod
    def of(cls, spec: FabricSpec, manager: str, dialects: list[str]) -> Options:
        """Read ``settings.<manager>``. ``dialects``: the default ways to attach.

        Raises SpecError.
        """
        fields = Fields(dict(spec.settings.get(manager, {})), f"settings.{manager}", MANAGERS[manager].settings)
        named = fields.texts("dialects", dialects)
        for name in named:
            if name not in DIALECTS:
                raise SpecError(fields.at("dialects"), f"{name!r} is not allowed. Allowed are {', '.join(DIALECTS)}")
        if {ZONES, CONNECTIONS} <= set(named):
            raise SpecError(fields.at("dialects"), "Zones and Connections exclude each other. In a fabric with "
                                                   "connections, a zone only limits the connections")
        return cls(
            dialects=frozenset(named), asynchronous=fields.flag("asynchronous"),
            keeps_tasks=fields.flag("keeps_tasks", True), etags=fields.flag("etags", True),
            strict_etags=fields.flag("strict_etags"), one_sided=fields.flag("one_sided"),
            page=fields.integer("page", 0), expand=fields.flag("expand", True), agents=fields.flag("agents", True),
            reset_types=tuple(fields.texts("reset_types", RESETS)), power_seconds=fields.number("power_seconds", 0.0),
            ignores_shutdown=fields.flag("ignores_shutdown"), attach_off=fields.flag("attach_off"),
        )

    @property
    def blocks(self) -> bool:
        """Whether there is a composition service."""
        return bool(self.dialects & {ADD_BLOCK, COMPOSE})

    @property
    def fabrics(self) -> bool:
        """Whether there are fabrics with endpoints."""
        return bool(self.dialects & {CONNECTIONS, ZONES})
