# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guards of the engine, each broken on purpose: a suite that does not notice would prove nothing."""

from __future__ import annotations

import functools
import importlib
import inspect
import textwrap
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ansible_collections.composable.infra.tests.chaos import invariants
from ansible_collections.composable.infra.tests.chaos.scenario import Scenario, Step
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, T4

_ENGINE = "ansible_collections.composable.infra.plugins.module_utils."


@dataclass(frozen=True, slots=True)
class Mutant:
    """``old`` in the source of a method is ``new``; ``seen_as``: the kinds of violations of which one must be found.

    ``known``: a seed that shows it.
    """

    name: str
    module: str
    method: str
    old: str
    new: str
    seen_as: frozenset[str]
    known: int = 0
    faults: tuple[Step, ...] = ()
    setting: t.Mapping[str, t.Any] = field(default_factory=dict)

    def provoked(self, scenario: Scenario) -> Scenario:
        """A random scenario, made harder with the faults, and in the setting, in which the guard is needed."""
        steps = tuple(sorted((*scenario.steps, *self.faults), key=lambda step: step.at))
        return replace(scenario, steps=steps, **self.setting)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """The guard is broken until the end of the block."""
        module = importlib.import_module(_ENGINE + self.module)
        owner, method = self.method.split(".")
        of_class = getattr(module, owner)
        before = of_class.__dict__[method]
        setattr(of_class, method, self._mutated(module, before))
        try:
            yield
        finally:
            setattr(of_class, method, before)

    def _mutated(self, module: t.Any, method: t.Any) -> t.Any:
        source = textwrap.dedent(inspect.getsource(method))
        if source.count(self.old) != 1:
            raise LookupError(f"mutant {self.name}: {self.old!r} is {source.count(self.old)} times in {self.method}")
        found: dict[str, t.Any] = {}
        exec("from __future__ import annotations\n" + source.replace(self.old, self.new), vars(module), found)
        made = found[method.__name__]
        return functools.wraps(method)(made)


def _mutant(name: str, where: str, old: str, new: str, *seen_as: str, known: int = 0,
            faults: tuple[Step, ...] = (), **setting: t.Any) -> Mutant:
    module, owner, method = where.rsplit(".", 2)
    return Mutant(name, module, f"{owner}.{method}", old, new, frozenset(seen_as), known, faults, setting)


def _often(kind: str, every: float, **with_: str | float) -> tuple[Step, ...]:
    """The same fault again and again."""
    return tuple(Step(at * every, kind, with_) for at in range(1, int(60 / every)))


_COMPOSE = "planning.node.compose._Compose."
_DETACH = "reconcile.node.detach_operations.DetachOperations."
# Pods that come and go on few devices: what leaves is wanted again.
_BUSY = tuple(step for n in range(18) for with_ in [{"name": f"more-{n}", "namespace": ("plain", "team-a")[n % 2]}]
              for step in (Step(3.1 * n, "pod", {**with_, "model": A100, "count": 1}),
                           Step(3.1 * n + 4.3, "delete", with_)))
_LOST = _often("manager", 5.0, fate="reply lost", part=0.7, seconds=5.0)
_KILLED = _often("kill at", 12.0, point="after attach", times=1)
MUTANTS: t.Final = (
    _mutant("no fence before a request", "reconcile.runtime.fence.Fence.check_request", "if not self.open", "if False",
            invariants.FENCE, known=1, faults=_often("freeze at", 12.0, point="before attach", times=1, seconds=25.0)),
    _mutant("the fence before the claims are read, not after", _DETACH + "_prove",
            "self._fence.check_request()", "pass", invariants.FENCE, known=6, hold=0.5,
            faults=_often("freeze at", 12.0, point="after list resourceclaims", times=2, seconds=25.0)),
    _mutant("no second proof of idleness before the detach", _DETACH + "_keeps",
            "if reason := self._check.claimed(action.resource, action.node):", 'if reason := "":', invariants.THEFT,
            known=23, faults=_BUSY, hold=0.5, nodes=1, taint_rules=False, agents_read_claims=False),
    _mutant("adoption of what was there before", _COMPOSE + "_adopt", "| resource.present", "", invariants.THEFT,
            faults=(*_LOST, *(Step(1.0, "place", {"node": node, "model": A100}) for node in range(2)))),
    _mutant("no wait for a request without an answer", _COMPOSE + "_past_deadline",
            "self.snapshot.now - resource.asked >= self.attach_deadline", "True", invariants.DOUBLE, invariants.LEAK,
            known=31, attach=4.0, direct=(), faults=(*_BUSY, *_KILLED)),
    _mutant("an end without a look for what came", _COMPOSE + "_leave",
            "(not self._adopt(resource) and self._past_deadline(resource))", "True", invariants.LEAK,
            faults=(*_BUSY, *_LOST)),
    _mutant("a device may come back for another while its detach has no answer", _COMPOSE + "_may_be_off",
            "return resource.deleting", "return False and resource.deleting", invariants.THEFT, known=5, hold=0.5,
            nodes=1, faults=(*_BUSY, *_often("manager", 5.0, fate="hangs", part=0.7, seconds=5.0))),
    _mutant("no intent before the request", "reconcile.state.writer.Writer.create_resource",
            "action.model, intent, ", 'action.model, "", ', invariants.LEAK, invariants.DOUBLE),
    _mutant("a pod that is not served is not let go", "reconcile.gating.gate_opener.GateOpener._let_go",
            "self._writer.ungate(release.pod)", "False", invariants.HELD),
    _mutant("no idle device is given back", _COMPOSE + "_release", "[:n]", "[:0]", invariants.LEAK),
    _mutant("a claim is never told that its device is there", "reconcile.state.writer.Writer.mark_claim",
            "not _waits_on(raw, action.node)", "True", invariants.LOST, known=2),
    _mutant("a device that others were shown becomes a pool device", _COMPOSE + "_assign", "if r.assignable",
            "if not r.pool_device", invariants.LOST, invariants.THEFT, known=126, direct=(A100, T4), faults=_BUSY),
)
