# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The faults of a run, and how long each lasts."""

from __future__ import annotations

import random
import typing as t
from collections.abc import Callable, Mapping

from ansible_collections.composable.infra.tests.chaos.models import cdi_manager, kernel, transport
from ansible_collections.composable.infra.tests.chaos.models.node import address
from ansible_collections.composable.infra.tests.chaos.scenario import Step
from ansible_collections.composable.infra.tests.chaos.workload import SECONDS

if t.TYPE_CHECKING:
    from ansible_collections.composable.infra.tests.chaos.models.cdi_manager import CdiManager
    from ansible_collections.composable.infra.tests.chaos.models.kube_scheduler import KubeScheduler
    from ansible_collections.composable.infra.tests.chaos.models.transport import Network
    from ansible_collections.composable.infra.tests.chaos.world import World

With = Mapping[str, t.Any]
# Points at which a controller is killed or frozen: right before and right after requests that
# change something, and some reads. The first ones concern devices, and are as frequent as all
# others together.
ABOUT_DEVICES: t.Final = ("attach", "detach", "create composableresources", "patch composableresources",
                          "patch composableresources/status", "list resourceclaims")
OTHERS: t.Final = ("delete composableresources", "create composabilityrequests", "patch composabilityrequests",
                   "patch pods", "patch pods/status", "patch resourceclaims/status", "create resourceslices",
                   "replace resourceslices", "create devicetaintrules", "delete devicetaintrules", "patch nodes",
                   "replace leases")
POINTS: t.Final = tuple(f"{side} {what}" for side in ("before", "after") for what in (*ABOUT_DEVICES * 2, *OTHERS))
# A process cannot be frozen between its last check of its Lease and the request that follows at
# once.
FREEZE_POINTS: t.Final = tuple(point for point in POINTS if point.startswith("after ") or point.endswith("tach"))
# The processes with a clock that is set: all controllers, as on one host, or one process. Steps are
# hours as well as seconds.
CLOCKS: t.Final = ("controllers", "controller-0", "controller-1", "gate-reaper", "agent")
CLOCK_STEPS: t.Final = tuple(sign * seconds for sign in (-1.0, 1.0) for seconds in (2.0, 30.0, 180.0, 3600.0))
# Seconds since the backup. The watches resume before as many versions are written again.
BACKUP_AGES: t.Final = (15.0, 30.0, 60.0)
API_FATES = (transport.LOST, transport.REPLY_LOST, transport.BUSY, transport.CONFLICT)


def steps(rng: random.Random, nodes: int) -> list[Step]:
    """Return random faults."""
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
        "watches end": {}, "watches too old": {},
        "manager lies": {"fate": rng.choice(cdi_manager.LIES), "part": rng.choice((0.3, 1.0)), "seconds": seconds},
        "forged log": {"node": node, "how": rng.choice(tuple(kernel.FORGED))},
        "restore": {"age": rng.choice(BACKUP_AGES), "seconds": rng.choice((0.5, 3.0, 8.0))},
        "clock_step": {"process": rng.choice(CLOCKS), "by": rng.choice(CLOCK_STEPS), "node": node},
        "agent": {"node": node, "seconds": rng.choice((seconds, seconds, 150.0))}, "plugin": {"node": node},
        "scheduler": {"seconds": seconds}}
    return Step(at, kind, with_[kind])


OFTEN: t.Final = ("kill at", "kill at", "kill at", "freeze at", "freeze at", "manager", "manager", "api",
                  "clock_step", "clock_step")


def _kill(world: World, with_: With) -> None:
    if leader := world.controllers.leader():
        world.simulation.kill(leader.process)


def _freeze(world: World, with_: With) -> None:
    if leader := world.controllers.leader():
        world.freeze(leader.process, with_["seconds"])


def _forge(world: World, with_: With) -> None:
    """Forge a message in the kernel log for each device of the node: the device is lost. A tenant's
    program does this.
    """
    node = world.node(with_)
    for minor in node.bus.values():
        node.kernel.log.forge(str(with_["how"]), address(minor))


def _restore(world: World, with_: With) -> None:
    """Stop the API servers, restore etcd from a copy, and start the API servers again."""
    world.network.down = True

    def back() -> None:
        if not world.healed:
            world.restore(with_["age"])
            world.network.down = False

    world.later(with_["seconds"], back)


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


def _clock_step(world: World, with_: With) -> None:
    """Set the wall clock of a process. Monotonic clocks do not change."""
    process, controllers = str(with_["process"]), world.controllers
    if process == "agent":
        world.node(with_).process.clock_offset += with_["by"]
    elif process == "gate-reaper":
        controllers.reaper.clock_offset += with_["by"]
    else:
        one = process.removeprefix("controller-")
        for slot in (int(one) % controllers.count,) if one.isdecimal() else range(controllers.count):
            controllers.step_clock(slot, with_["by"])


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
    "manager": _fates("manager"), "manager lies": _fates("wire"),
     "api": _fates("api"), "clock_step": _clock_step, "restore": _restore, "forged log": _forge,
    "agent": _agent,
    "watches end": lambda world, with_: world.server.drop_watches(),
    "watches too old": lambda world, with_: world.server.forget_history(),
    "plugin": lambda world, with_: world.node(with_).restart_plugin(),
}
