# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine as modules run it: plan, explain, carry out; and the Leases that keep two engines apart."""

from __future__ import annotations

import math
import threading
import typing as t
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    NODES,
    SLICES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden, NotServed, Unreachable
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.reconcile import keys
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig, EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager import (
    engine as engine_module,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager import inventory_polls
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager import (
    leader_election as leadership_module,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.leader_election import LeaderElection
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot import quiescence
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot import run as session
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.run import NotReady, Run
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench, kind_of
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device
from ansible_collections.composable.infra.tests.unit.reconcile.fake_hands import FakeHands

RESULT = objects.pool_result()


class FakeLeadership:
    """Leads or not, as told by ``others``."""

    others: t.ClassVar[list[str]] = []
    left: t.ClassVar[list[bool]] = []
    held = True

    def __init__(self, client: object, namespace: str, components: list[str], on_lost: Callable[[], object]) -> None:
        assert components == ["operator", "publisher", "scaler"]

    def lead_unless_led(self, stop: threading.Event, timeout: float) -> tuple[str, ...]:
        return tuple(self.others)

    def look(self) -> tuple[str, ...]:
        return tuple(self.others)

    def leave(self) -> None:
        self.left.append(True)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, config: EngineConfig) -> Iterator[tuple[Run, Bench]]:
    """A run against a fake cluster with one node, and the bench behind it."""
    bench = Bench()
    bench.api.put(NODES, objects.node())
    monkeypatch.setattr(f"{EngineConfig.__module__}.connect", lambda config: bench.fabric)
    monkeypatch.setattr(session, "LeaderElection", FakeLeadership)
    monkeypatch.setattr(FakeLeadership, "others", [])
    monkeypatch.setattr(FakeLeadership, "left", [])
    for module, name in ((quiescence, "QUIET"), (quiescence, "QUIET_WITH_PENDING_PODS")):
        monkeypatch.setattr(module, name, 0.02)
    monkeypatch.setattr(quiescence, "TICK", 0.001)
    monkeypatch.setattr(session, "TICK", 0.001)
    monkeypatch.setattr(inventory_polls, "SHORTEST_LOOK", 0.01)
    monkeypatch.setattr(engine_module, "GATHER_SECONDS", dict.fromkeys(keys.GATHER_SECONDS, 0.01))
    yield Run(bench.api.client, config, 10.0), bench
    if bench.fabric.gate:
        bench.fabric.gate.set()


def have(bench: Bench, *raws: dict[str, t.Any]) -> None:
    """The API server has these."""
    for raw in raws:
        bench.api.put(kind_of(raw), raw)


def rest_of_the_cluster(bench: Bench) -> None:
    """The node shows what is attached; the scheduler moves a claim on as soon as it is told."""

    hands = FakeHands(bench.api)

    def react(resource: ApiResource, obj: dict[str, t.Any]) -> None:
        if resource == COMPOSABLE_RESOURCES and (obj.get("status") or {}).get("cdi_device_id"):
            bench.api.put(SLICES, objects.local_slice(*[f"GPU-{u}" for u in bench.fabric.attached]))
        if resource == CLAIMS and obj["status"].get("devices"):
            bench.api.put(CLAIMS, objects.claim(obj["metadata"]["name"], objects.local_result()))
        hands(resource, obj)

    bench.api.after = react


def test_plan_says_what_would_be_done_and_does_nothing(made: tuple[Run, Bench]) -> None:
    run, bench = made
    have(bench, objects.claim("train", RESULT))
    found = run.plan().as_result()
    assert found["changed"] is True
    assert {a["action"] for a in found["actions"]} == {"WritePool", "LabelNode", "SetSize", "CreateResource"}
    assert (found["verdicts"][0]["claim"], found["verdicts"][0]["handover"]) == ("default/train", "reschedule")
    assert found["diff"]["after"]["node-0 A100 40G"] == 1
    assert found["summary"] == ("Would change A100 40G on node-0 from 0 to 1. Waiting: default/train. "
                                "No process leads.")
    assert "history" not in found
    assert bench.api.writes() == []
    assert bench.fabric.attaches == []


def test_plan_names_every_waiting_claim_and_who_leads(made: tuple[Run, Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    """As the real run and claim_info do, also a claim that no pass can serve."""
    run, bench = made
    monkeypatch.setattr(FakeLeadership, "others", ["controller-1"])
    have(bench, objects.claim("train", RESULT), objects.claim("hopeless"), objects.pod("hopeless"))
    found = run.plan().as_result()
    assert [v["claim"] for v in found["verdicts"]] == ["default/hopeless", "default/train"]
    assert all(v["waits_for"] for v in found["verdicts"])
    assert found["led_by"] == ["controller-1"]
    assert bench.api.writes() == []


def test_carried_out_once_then_nothing_is_left(made: tuple[Run, Bench]) -> None:
    run, bench = made
    rest_of_the_cluster(bench)
    have(bench, objects.claim("train", RESULT))
    first = run.carry_out(10.0).as_result()
    assert (first["changed"], first["settled"], first["led_by"]) == (True, True, [])
    assert first["verdicts"] == []
    assert {"Attaching", "Attached", objects.RESCHEDULE} <= {e["reason"] for e in first["history"]}
    assert first["summary"] == "Attached: A100 40G to node-0 for default/train. No claim waits. Led by this run."
    assert len(bench.fabric.attaches) == 1
    second = run.carry_out(10.0).as_result()
    assert (second["changed"], second["actions"], second["settled"]) == (False, [], True)
    assert second["summary"] == "Attached nothing. No claim waits. Led by this run."
    assert run.plan().changed is False
    assert FakeLeadership.left == [True, True]


def test_check_mode_predicts_the_change(made: tuple[Run, Bench]) -> None:
    run, bench = made
    bench.fabric.attached["d1"] = device("d1")
    idle = objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, state="Online")
    have(bench, objects.request(), objects.local_slice("GPU-d1"), idle)
    run.carry_out(10.0)
    idle["metadata"]["annotations"][cohdi.IN_USE] = "true"
    have(bench, idle)
    predicted = run.plan()
    assert predicted.actions
    assert run.carry_out(10.0).changed is predicted.changed


def test_other_leader_is_named_and_nothing_is_done(made: tuple[Run, Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    run, bench = made
    monkeypatch.setattr(FakeLeadership, "others", ["controller-1"])
    have(bench, objects.claim("train", RESULT))
    found = run.carry_out(0.05).as_result()
    assert (found["changed"], found["settled"], found["led_by"]) == (False, False, ["controller-1"])
    assert [v["claim"] for v in found["verdicts"]] == ["default/train"]
    assert bench.api.writes(COMPOSABILITY_REQUESTS) == []
    assert bench.fabric.attaches == []


def test_time_that_runs_out_is_told(made: tuple[Run, Bench]) -> None:
    run, bench = made
    have(bench, objects.claim("train", RESULT))
    found = run.carry_out(0.05)
    assert not found.settled
    assert found.wait_reasons[0].claim == "default/train"


def test_explanation_comes_with_what_could_not_be_read(made: tuple[Run, Bench]) -> None:
    run, bench = made
    have(bench, objects.claim("train", objects.local_result()))
    wait_reasons, problems = run.explain()
    assert ([v.claim for v in wait_reasons], problems) == (["default/train"], [])


def test_explanation_is_asked_anew_until_it_is_what_is_waited_for(made: tuple[Run, Bench]) -> None:
    """The claim comes while it is waited for."""
    run, bench = made
    seen: list[int] = []

    def until(reasons: Sequence[WaitReason]) -> bool:
        seen.append(len(reasons))
        if len(seen) == 1:
            have(bench, objects.claim("train", objects.local_result()))
        return bool(reasons)

    wait_reasons, _problems = run.explain(until, 10.0)
    assert ([v.claim for v in wait_reasons], seen[0], seen[-1]) == (["default/train"], 0, 1)


def test_explanation_that_is_waited_for_in_vain_is_the_last_one(made: tuple[Run, Bench]) -> None:
    run, bench = made
    have(bench, objects.claim("train", objects.local_result()))
    assert [v.claim for v in run.explain(lambda reasons: False, 0.0)[0]] == ["default/train"]


def test_manager_that_is_away_is_said(made: tuple[Run, Bench]) -> None:
    run, bench = made
    bench.fabric.snapshot_error = Unavailable("the CDI Manager does not answer")
    run.ready_timeout = 0.05
    with pytest.raises(NotReady, match="the CDI Manager does not answer"):
        run.plan()


def test_cluster_without_the_kinds_is_said_before_anything_starts(made: tuple[Run, Bench]) -> None:
    run, bench = made
    bench.api.paths[COMPOSABILITY_REQUESTS.path()] = NotServed(404, "NotFound", "no")
    with pytest.raises(BadConfig, match="Apply deploy/crds"):
        run.carry_out(10.0)
    assert FakeLeadership.left == []


class FakeLease:
    """A Lease that is free, held by somebody, or refused."""

    taken_by: t.ClassVar[dict[str, str]] = {}
    refused: t.ClassVar[set[str]] = set()
    log: t.ClassVar[list[str]] = []

    def __init__(self, client: object, namespace: str, name: str, identity: str) -> None:
        self.name, self.held, self.on_lost, self.last_error = f"{namespace}/{name}", False, None, ""

    @property
    def holder(self) -> str | None:
        return "me" if self.held else self.taken_by.get(self.name)

    def look(self) -> None:
        """Who holds it is known already."""

    def live_holder(self, now: float) -> str:
        return self.taken_by.get(self.name, "")

    def acquire(self, timeout: float) -> bool:
        if self.name in self.refused:
            raise Forbidden(403, "Forbidden", "no")
        self.held = self.name not in self.taken_by
        if self.held:
            self.log.append(f"+{self.name}")
        return self.held

    def release(self) -> None:
        if self.held:
            self.log.append(f"-{self.name}")
        self.held = False


@pytest.fixture
def leadership(monkeypatch: pytest.MonkeyPatch) -> LeaderElection:
    """Leadership over two components in the namespace ``ns``."""
    monkeypatch.setattr(leadership_module, "Lease", FakeLease)
    monkeypatch.setattr(FakeLease, "taken_by", {})
    monkeypatch.setattr(FakeLease, "refused", set())
    monkeypatch.setattr(FakeLease, "log", [])
    return LeaderElection(Bench().api.client, "ns", ["operator", "scaler"], lambda: None)


FIRST, SECOND = "ns/composable-infra-operator", "ns/composable-infra-scaler"


def test_all_leases_are_taken_and_given_back(leadership: LeaderElection) -> None:
    assert leadership.lead(threading.Event())
    assert leadership.holders() == []
    leadership.leave()
    assert FakeLease.log == [f"+{FIRST}", f"+{SECOND}", f"-{FIRST}", f"-{SECOND}"]


def test_run_takes_all_leases_or_names_who_holds_one_at_once(leadership: LeaderElection) -> None:
    FakeLease.taken_by[SECOND] = "controller-1"
    assert leadership.lead_unless_led(threading.Event(), 60.0) == ("controller-1",)
    assert FakeLease.log == [f"+{FIRST}", f"-{FIRST}"]
    FakeLease.taken_by.clear()
    assert leadership.lead_unless_led(threading.Event(), 60.0) == ()


def in_trouble(monkeypatch: pytest.MonkeyPatch, times: float) -> None:
    """The API server does not answer the first ``times`` attempts."""
    acquire, tries = FakeLease.acquire, []

    def attempt(self: FakeLease, timeout: float) -> bool:
        tries.append(timeout)
        self.last_error = "GET: timed out" if len(tries) <= times else ""
        return not self.last_error and acquire(self, timeout)

    monkeypatch.setattr(FakeLease, "acquire", attempt)


def test_run_waits_for_an_api_server_in_trouble(leadership: LeaderElection, monkeypatch: pytest.MonkeyPatch) -> None:
    in_trouble(monkeypatch, times=3)
    assert leadership.lead_unless_led(threading.Event(), 60.0) == ()
    assert FakeLease.log == [f"+{FIRST}", f"+{SECOND}"]


def test_run_says_why_nobody_leads(leadership: LeaderElection, monkeypatch: pytest.MonkeyPatch) -> None:
    in_trouble(monkeypatch, times=math.inf)
    with pytest.raises(Unreachable,
                       match="no process leads, but the Lease could not be acquired in 0 s: GET: timed out"):
        leadership.lead_unless_led(threading.Event(), 0.0)


def test_a_look_names_who_leads_and_takes_nothing(leadership: LeaderElection) -> None:
    assert leadership.look() == ()
    FakeLease.taken_by["ns/composable-infra-scaler"] = "controller-1"
    assert leadership.look() == ("controller-1",)
    assert FakeLease.log == []


def test_stop_ends_the_wait_for_a_lease(leadership: LeaderElection) -> None:
    FakeLease.taken_by[FIRST] = "controller-1"
    stop = threading.Event()
    stop.set()
    assert not leadership.lead(stop)


def test_lease_that_becomes_free_is_taken(leadership: LeaderElection, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeLease.taken_by[FIRST] = "controller-1"
    tries = []
    acquire = FakeLease.acquire

    def third_time(self: FakeLease, timeout: float) -> bool:
        tries.append(timeout)
        if len(tries) == 3:
            FakeLease.taken_by.clear()
        return acquire(self, timeout)

    monkeypatch.setattr(FakeLease, "acquire", third_time)
    assert leadership.lead(threading.Event())
    assert len(tries) == 4


def test_refused_lease_is_raised_and_the_others_can_be_given_back(leadership: LeaderElection) -> None:
    FakeLease.refused.add(SECOND)
    with pytest.raises(Forbidden):
        leadership.lead(threading.Event())
    leadership.leave()
    assert FakeLease.log == [f"+{FIRST}", f"-{FIRST}"]


def test_outcome_of_a_plan_has_no_history() -> None:
    found = session.Outcome(False, (), (), {})
    assert set(found.as_result()) == {"changed", "actions", "diff", "verdicts", "settled", "led_by", "summary"}
    assert set(replace(found, history=()).as_result()) == {*found.as_result(), "history", "led_by"}
