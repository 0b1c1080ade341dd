# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guards of the engine, each broken on purpose. A test suite that does not notice would prove
nothing.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import textwrap
import typing as t
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from ansible_collections.composable.infra.tests.chaos import invariants
from ansible_collections.composable.infra.tests.chaos.scenario import Scenario, Step
from ansible_collections.composable.infra.tests.chaos.simulation import stand_ins
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, T4

_ROOT = "ansible_collections.composable.infra."
_ENGINE = _ROOT + "plugins.module_utils."


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a method or function. ``where``: its place in module_utils, or in ``controller``.

    ``old`` in its source is replaced by ``new``.
    """

    where: str
    old: str
    new: str

    @contextmanager
    def made(self) -> Iterator[None]:
        """Apply the edit until the end of the block."""
        path, name = self.where.rsplit(".", 1)
        module, owner = self._owner(path)
        before = vars(owner)[name]
        setattr(owner, name, self._mutated(module, before))
        try:
            yield
        finally:
            setattr(owner, name, before)

    @staticmethod
    def _owner(path: str) -> tuple[t.Any, t.Any]:
        """Return the module, and the owner of the function: the module itself or a class of it."""
        path = (_ROOT if path.startswith("controller.") else _ENGINE) + path
        above, last = path.rsplit(".", 1)
        if last[:1].isupper() or last.startswith("_"):
            module = importlib.import_module(above)
            return module, getattr(module, last)
        module = importlib.import_module(path)
        return module, module

    def _mutated(self, module: t.Any, method: t.Any) -> t.Any:
        source = textwrap.dedent(inspect.getsource(method))
        if source.count(self.old) != 1:
            raise LookupError(f"{self.old!r} is {source.count(self.old)} times in {self.where}")
        found: dict[str, t.Any] = {}
        exec("from __future__ import annotations\n" + source.replace(self.old, self.new), vars(module), found)
        made = found[method.__name__]
        return functools.wraps(method)(made)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A guard that is broken by ``edits``. ``seen_as``: one of these kinds of violations must be
    found.

    ``known``: a seed that shows it.
    """

    name: str
    edits: tuple[Edit, ...]
    seen_as: frozenset[str]
    known: int = 0
    faults: tuple[Step, ...] = ()
    setting: t.Mapping[str, t.Any] = field(default_factory=dict)

    def provoked(self, scenario: Scenario) -> Scenario:
        """Return a random scenario with the faults and the setting in which the guard is needed."""
        steps = tuple(sorted((*scenario.steps, *self.faults), key=lambda step: step.at))
        return replace(scenario, steps=steps, **self.setting)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Break the guard until the end of the block."""
        with ExitStack() as undo:
            for edit in self.edits:
                undo.enter_context(edit.made())
            yield


def _mutant(name: str, where: str, old: str, new: str, *seen_as: str, known: int = 0, faults: tuple[Step, ...] = (),
            also: tuple[Edit, ...] = (), **setting: t.Any) -> Mutant:
    return Mutant(name, (Edit(where, old, new), *also), frozenset(seen_as), known, faults, setting)


def _often(kind: str, every: float, **with_: str | float) -> tuple[Step, ...]:
    """Return the same fault, repeated."""
    return tuple(Step(at * every, kind, with_) for at in range(1, int(60 / every)))


_COMPOSE = "planning.node.compose._Compose."
_DETACH = "reconcile.node.detach_operations.DetachOperations."
# Pods that come and go on few devices, so that returned devices are needed again.
_BUSY = tuple(step for n in range(18) for with_ in [{"name": f"more-{n}", "namespace": ("plain", "team-a")[n % 2]}]
              for step in (Step(3.1 * n, "pod", {**with_, "model": A100, "count": 1}),
                           Step(3.1 * n + 4.3, "delete", with_)))
_LOST = _often("manager", 5.0, fate="reply lost", part=0.7, seconds=5.0)
_KILLED = _often("kill at", 12.0, point="after attach", times=1)
# The simulated wall clock minus the monotonic one, while neither was set.
_FROM_MONOTONIC = stand_ins.EPOCH - stand_ins.MONOTONIC
_CLOCK = "kube.client.server_clock.ServerClock."
_RESTORED = (Step(30.0, "restore", {"age": 15.0, "seconds": 0.5}),)
_BELIEVED = Edit("controller.agent.host_operations.HostOperations._is_believed", "return fault", "return True or fault")


def _steps(process: str, by: float) -> tuple[Step, ...]:
    """Return clock steps in the middle of the run. For an agent the clocks of all nodes are set."""
    nodes = range(4) if process == "agent" else range(1)
    return tuple(Step(20.0, "clock_step", {"process": process, "by": by, "node": node}) for node in nodes)


def _lies(fate: str) -> tuple[Step, ...]:
    """Return faults in which the CDI Manager sometimes gives wrong answers."""
    return _often("manager lies", 10.0, fate=fate, part=0.5, seconds=5.0)


MUTANTS: t.Final = (
    _mutant("no fence before a request", "reconcile.runtime.fence.Fence.check_request", "if not self.open", "if False",
            invariants.FENCE, known=1, faults=_often("freeze at", 12.0, point="before attach", times=1, seconds=25.0)),
    _mutant("the fence before the claims are read, not after", _DETACH + "_prove",
            "self._fence.check_request()", "pass", invariants.FENCE, known=6, hold=0.5,
            faults=_often("freeze at", 12.0, point="after list resourceclaims", times=2, seconds=25.0)),
    _mutant("no second proof of idleness before the detach", _DETACH + "_keeps",
            "if reason := self._check.claimed(action.resource, action.node):", 'if reason := "":', invariants.THEFT,
            known=8, faults=_BUSY, hold=0.5, nodes=1, taint_rules=False, agents_read_claims=False),
    _mutant("adoption of what was there before", _COMPOSE + "_adopt", "| resource.present", "", invariants.THEFT,
            known=1, faults=(*_LOST, *(Step(1.0, "place", {"node": node, "model": A100}) for node in range(2)))),
    _mutant("no wait for a request without an answer", _COMPOSE + "_past_deadline",
            "self.snapshot.now - resource.asked >= self.attach_deadline", "True", invariants.DOUBLE, invariants.LEAK,
            known=17, attach=4.0, direct=(), faults=(*_BUSY, *_KILLED)),
    _mutant("an end without a look for what came", _COMPOSE + "_leave",
            "(not self._adopt(resource) and self._past_deadline(resource))", "True", invariants.LEAK,
            known=2, faults=(*_BUSY, *_LOST)),
    _mutant("a device may come back for another while its detach has no answer", _COMPOSE + "_may_be_off",
            "return resource.deleting", "return False and resource.deleting", invariants.THEFT, known=12, hold=0.5,
            nodes=1, faults=(*_BUSY, *_often("manager", 5.0, fate="hangs", part=0.7, seconds=5.0))),
    _mutant("no intent before the request", "reconcile.writers.resources.ResourceWriter.create",
            "action.model, intent, ", 'action.model, "", ', invariants.LEAK, invariants.DOUBLE),
    _mutant("a pod that is not served is not let go", "reconcile.gating.gate_opener.GateOpener._let_go",
            "self._writer.pods.ungate(release.pod)", "False", invariants.HELD),
    _mutant("no idle device is given back", _COMPOSE + "_release", "[:n]", "[:0]", invariants.LEAK),
    _mutant("a claim is never told that its device is there", "reconcile.writers.claims.ClaimWriter.mark",
            "not _waits_on(claim, action.node)", "True", invariants.LOST, known=2),
    _mutant("a device that others were shown becomes a pool device", _COMPOSE + "_assign", "if r.assignable",
            "if not r.pool_device", invariants.LOST, invariants.THEFT, known=1, direct=(A100, T4), faults=_BUSY),
    _mutant("appointments by the wall clock", "runtime.work_queue.WorkQueue._promote",
            "now = time.monotonic()", f"now = time.time() - {_FROM_MONOTONIC}", invariants.LOST, invariants.LEAK,
            known=1, faults=_steps("agent", -3600.0)),
    _mutant("the moment of a request by the own clock", "reconcile.writers.resources.ResourceWriter.create",
            "self.client.server_time()", "time.time()", invariants.DOUBLE, invariants.LEAK,
            known=17, faults=(*_BUSY, *_KILLED, *_steps("controllers", -3600.0)), attach=4.0, direct=(),
            asynchronous=False),
    _mutant("the API server's time by the own clock", _CLOCK + "note", "self.steady()", "self._wall()",
            invariants.LOST, invariants.LEAK, invariants.DOUBLE, known=146,
            faults=(*_BUSY, *_often("clock_step", 5.0, process="controllers", by=3600.0)),
            also=(Edit(_CLOCK + "now", "self.steady() + self._offset", "self._wall() + self._offset"),)),
    _mutant("moments in memory by the own clock", "reconcile.state.cluster_state.ClusterState.note_uses",
            "now = self.now()", "now = time.time()", invariants.LEAK, faults=_steps("controllers", 3600.0)),
    _mutant("a watch goes on in the future after a restore", "kube.watch.reflector.Reflector._list_if_due",
            "if self._version and", "if False and", invariants.LOST, invariants.LEAK, invariants.HELD, known=1,
            faults=_RESTORED),
    _mutant("a device whose ComposableResource is gone is detached unasked",
            "reconcile.node.attach_operations.AttachOperations._record", "except NotFound:",
            "except NotFound:\n            self.fabric.detach(device.machine, device.uid)", invariants.THEFT, known=9,
            faults=(*_BUSY, *_RESTORED), attach=4.0),
    _mutant("a message of the kernel is believed wherever it stands", "node.kernel_log._fault", "pattern.match(line)",
            "pattern.search(line)", invariants.LOST, known=3, faults=_often("forged log", 4.0, node=0, how="program"),
            nodes=1, also=(_BELIEVED,)),
    _mutant("a message is believed whoever wrote it", "node.kernel_log._message", "not in _KERNEL_FACILITY",
            "in ()", invariants.LOST, known=3, faults=_often("forged log", 4.0, node=0, how="kmsg"), nodes=1,
            also=(_BELIEVED,)),
    _mutant("no deadline for an answer as a whole", "net.http1.HttpConnection.ask", "time.monotonic() + timeout",
            "math.inf", invariants.LOST, faults=_lies("drips"), wired=True),
    _mutant("an answer about another machine is believed", "fabric.drivers.fm.wire.entry_of",
            "str(entry[\"mach_uuid\"]).casefold() == uid.casefold()", "True", invariants.LEAK, invariants.DOUBLE,
            invariants.THEFT, known=5, faults=(*_BUSY, *_lies("another machine")), wired=True),
    _mutant("a 503 says that nothing was done", "fabric.http.http_status._may_have_taken_effect",
            "if status in (403, 503):", "if status == 503:\n        return False\n    if status == 403:",
            invariants.LEAK, invariants.DOUBLE, faults=(*_BUSY, *_lies("503 after the effect")), wired=True),
)
