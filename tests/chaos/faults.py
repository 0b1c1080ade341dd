# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong, and for how long."""

from __future__ import annotations

import random
import typing as t
from collections.abc import Callable, Mapping

from ansible_collections.composable.infra.tests.chaos.models import cdi_manager, transport
from ansible_collections.composable.infra.tests.chaos.scenario import Step
from ansible_collections.composable.infra.tests.chaos.workload import SECONDS

if t.TYPE_CHECKING:
    from ansible_collections.composable.infra.tests.chaos.models.cdi_manager import CdiManager
    from ansible_collections.composable.infra.tests.chaos.models.kube_scheduler import KubeScheduler
    from ansible_collections.composable.infra.tests.chaos.models.transport import Network
    from ansible_collections.composable.infra.tests.chaos.world import World

With = Mapping[str, t.Any]
# Where a controller is killed or frozen: right before and right after what changes something, and some reads. The
# first ones are about devices, and are taken as often as all others.
ABOUT_DEVICES: t.Final = ("attach", "detach", "create composableresources", "patch composableresources",
                          "patch composableresources/status", "list resourceclaims")
OTHERS: t.Final = ("delete composableresources", "create composabilityrequests", "patch composabilityrequests",
                   "patch pods", "patch pods/status", "patch resourceclaims/status", "create resourceslices",
                   "replace resourceslices", "create devicetaintrules", "delete devicetaintrules", "patch nodes",
                   "replace leases")
POINTS: t.Final = tuple(f"{side} {what}" for side in ("before", "after") for what in (*ABOUT_DEVICES * 2, *OTHERS))
# A process cannot be frozen between its last look at its Lease and the request that follows at once.
FREEZE_POINTS: t.Final = tuple(point for point in POINTS if point.startswith("after ") or point.endswith("tach"))
API_FATES = (transport.LOST, transport.REPLY_LOST, transport.BUSY, transport.CONFLICT)


def steps(rng: random.Random, nodes: int) -> list[Step]:
    """Random faults."""
    return [_any(rng, nodes) for _unused in range(rng.choice((0, 1, 2, 2, 3, 4, 6, 8)))]


def _any(rng: random.Random, nodes: int) -> Step:
    kind, at = rng.choice((*DO, *OFTEN)), rng.uniform(0.0, SECONDS)
    node, seconds = rng.randrange(nodes), rng.choice((0.2, 2.0, 8.0, 25.0)) * rng.uniform(0.5, 1.5)
    with_: dict[str, dict[str, t.Any]] = {
        "kill": {}, "freeze": {"seconds": seconds},
        "kill at": {"point": rng.choice(POINTS), "times": rng.choice((1, 1, 1, 2, 4))},
        "freeze at": {"point": rng.choice(FREEZE_POINTS), "times": rng.choice((1, 1, 1, 2, 4)),
                      "seconds": rng.choice((1.0, 16.0, 25.0, 25.0))},
        "manager down": {"seconds": seconds}, "api down": {"seconds": seconds},
        "manager": {"fate": rng.choice(cdi_manager.FATES), "part": rng.choice((0.3, 1.0)), "seconds": seconds},
        "api": {"fate": rng.choice(API_FATES), "part": rng.choice((0.05, 0.3)), "seconds": seconds},
        "watches end": {}, "watches too old": {}, "clock": {"by": rng.choice((-30.0, -2.0, 2.0, 30.0))},
        "agent": {"node": node, "seconds": rng.choice((seconds, seconds, 150.0))}, "plugin": {"node": node},
        "scheduler": {"seconds": seconds}}
    return Step(at, kind, with_[kind])


OFTEN: t.Final = ("kill at", "kill at", "kill at", "freeze at", "freeze at", "manager", "manager", "api")


def _kill(world: World, with_: With) -> None:
    if leader := world.controllers.leader():
        world.simulation.kill(leader.process)


def _freeze(world: World, with_: With) -> None:
    if leader := world.controllers.leader():
        world.freeze(leader.process, with_["seconds"])


def _at_point(world: World, with_: With) -> None:
    world.armed.append({"left": with_["times"], **with_})


def _down(part: str) -> Callable[[World, With], None]:
    def do(world: World, with_: With) -> None:
        _part(world, part).down = True
        world.later(with_["seconds"], lambda: _up(world, part))

    return do


def _up(world: World, part: str) -> None:
    if part == "scheduler":
        world.scheduler.restart()
    _part(world, part).down = False


def _part(world: World, name: str) -> CdiManager | Network | KubeScheduler:
    if name == "manager":
        return world.manager
    return world.network if name == "api" else world.scheduler


def _fates(part: str) -> Callable[[World, With], None]:
    def do(world: World, with_: With) -> None:
        entry = (part, with_["fate"], with_["part"])
        world.fates.append(entry)
        world.later(with_["seconds"], lambda: world.fates.remove(entry) if entry in world.fates else None)

    return do


def _clock(world: World, with_: With) -> None:
    """The wall clock of all controllers is set; monotonic clocks go on."""
    world.controllers.clock_offset += with_["by"]
    for replica in world.controllers.replicas.values():
        replica.process.clock_offset = world.controllers.clock_offset


def _agent(world: World, with_: With) -> None:
    node = world.node(with_)
    node.agent_down = True

    def back() -> None:
        node.restart_agent()
        node.agent_down = False

    world.later(with_["seconds"], back)


DO: t.Final[Mapping[str, Callable[[World, With], object]]] = {
    "kill": _kill, "freeze": _freeze, "kill at": _at_point, "freeze at": _at_point,
    "manager down": _down("manager"), "api down": _down("api"), "scheduler": _down("scheduler"),
    "manager": _fates("manager"), "api": _fates("api"), "clock": _clock, "agent": _agent,
    "watches end": lambda world, with_: world.server.drop_watches(),
    "watches too old": lambda world, with_: world.server.forget_history(),
    "plugin": lambda world, with_: world.node(with_).restart_plugin(),
}
