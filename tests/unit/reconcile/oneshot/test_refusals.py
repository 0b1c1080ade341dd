# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A claim that the fabric cannot serve says so first, and never that it waits for a free device."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.event_recorder import Recorder
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.explain import as_planned, explain
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.run import wait_reason_result
from ansible_collections.composable.infra.plugins.module_utils.reconcile.writers.pods import PodWriter
from ansible_collections.composable.infra.tests.unit.planning.builders import DRIVER
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device
from ansible_collections.composable.infra.tests.unit.reconcile.oneshot.explain_support import (
    Quiet,
)
from ansible_collections.composable.infra.tests.unit.reconcile.oneshot.quiescence_support import (
    Events,
)

SAID = "0/1 nodes are available: 1 cannot allocate all claims."
MISSPELT = f'device.attributes["{DRIVER}"].productName == "NVIDIA H100-PCIe"'
NEVER = "claim train, request r: no model of device_info satisfies it"


@pytest.fixture
def served(quiet: Quiet) -> Quiet:
    """A node with room, the namespace and the DeviceClass; the fabric has 4 free A100."""
    quiet[1].put(gated_pods.node(),
                 {"apiVersion": "v1", "kind": "Namespace", "metadata": gated_pods.opted_in("default")},
                 {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": objects.meta(DRIVER),
                  "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}})
    return quiet


def refused_by_the_scheduler() -> dict[str, t.Any]:
    """The pod without a gate, which kube-scheduler has tried in vain."""
    raw = gated_pods.pod("train")
    del raw["spec"]["schedulingGates"]
    raw["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": SAID}]
    return raw


def tell_by_the_scheduler(bench: Bench) -> None:
    """Have kube-scheduler write its condition beside those that the pod has."""
    raw = bench.api.one(PODS, "train", "default")
    mine = refused_by_the_scheduler()["status"]["conditions"]
    others = [each for each in raw["status"]["conditions"] if each["type"] != "PodScheduled"]
    bench.put({**raw, "status": {**raw["status"], "conditions": [*others, *mine]}})


def both(quiet: Quiet) -> Iterator[WaitReason]:
    """What the module and the page say of the claim."""
    (found,) = explain(quiet[0])
    yield found
    yield as_planned(quiet[0])["default/train"]


def test_selector_that_no_model_satisfies_is_the_reason(served: Quiet) -> None:
    served[1].put(gated_pods.claim("train", cel=MISSPELT), refused_by_the_scheduler())
    for found in both(served):
        assert found.refused == NEVER
        assert found.waits_for == ("a change of the claim or the fabric, which cannot serve it: "
                                   f"{NEVER} (scheduler: {SAID})")
        assert "free" not in found.waits_for
        assert wait_reason_result(found)["refused"] == NEVER


def test_more_devices_than_there_are_is_the_reason(served: Quiet) -> None:
    """4 are free and 1 is attached to a machine of the fabric."""
    served[1].fabric.attached["d1"] = device("d1")
    served[1].look()
    served[1].put(gated_pods.claim("train", 6), refused_by_the_scheduler())
    for found in both(served):
        assert found.refused == "6 x A100 40G on one node, but no fabric has more than 5 in total"
    served[1].put(gated_pods.claim("train", 5))
    for found in both(served):
        assert found.refused == ""


def test_devices_that_could_not_be_counted_refuse_nobody(served: Quiet) -> None:
    state = served[0].state
    assert state.snapshot
    state.snapshot = replace(state.snapshot, problems={"A100 40G/1": "the CDI Manager does not answer"})
    served[1].put(gated_pods.claim("train", 6), refused_by_the_scheduler())
    for found in both(served):
        assert found.refused == ""


def test_only_models_that_satisfy_the_selectors_are_named(served: Quiet) -> None:
    """The selector names no model by its whole name."""
    starts = f'device.attributes["{DRIVER}"].productName.startsWith("NVIDIA A")'
    served[1].put(gated_pods.claim("train", cel=starts), refused_by_the_scheduler())
    for found in both(served):
        assert "of A100 40G: pool a100-fabric1" in found.waits_for
        assert "H100" not in found.waits_for


def test_planner_that_refuses_a_pod_is_the_first_to_be_heard(served: Quiet) -> None:
    """A module has not seen the release, so it asks the planner."""
    served[1].put({**gated_pods.node(), "spec": {**gated_pods.node()["spec"], "unschedulable": True}})
    served[1].put(gated_pods.claim("train"), refused_by_the_scheduler())
    (found,) = explain(served[0])
    assert found.waits_for.startswith("1 x A100 40G: 0/1 nodes: 1 were unschedulable; pool a100-fabric1 has")
    assert found.refused == ""


def test_planner_is_not_asked_where_it_does_not_see_all_pods(served: Quiet) -> None:
    """Only pods without a node are watched there, so that it would take used devices for those that return."""
    use_handover(served, "reschedule")
    served[1].put({**gated_pods.node(), "spec": {**gated_pods.node()["spec"], "unschedulable": True}})
    served[1].put(gated_pods.claim("train"), refused_by_the_scheduler())
    (found,) = explain(served[0])
    assert found.waits_for.startswith("a node with 1 free device of A100 40G: pool a100-fabric1 has")
    served[1].put(gated_pods.claim("train", cel=MISSPELT))
    for found in both(served):
        assert found.refused == NEVER


def use_handover(quiet: Quiet, handover: str) -> None:
    """Have all pods served by a handover."""
    engine, _bench = quiet
    settings = replace(engine.config.settings, handover=handover)
    engine.config = replace(engine.config, settings=settings)
    engine.state.settings = settings


def test_reason_of_the_release_is_kept_for_the_claim(served: Quiet) -> None:
    """It is on the claim as an Event, and the process that released the pod says it first."""
    engine, bench = served
    bench.put({**gated_pods.node(), "spec": {**gated_pods.node()["spec"], "unschedulable": True}})
    gated_pods.ask(bench)
    bench.reconcile(GatesKey())
    (why,) = [each["message"] for each in engine.reporter.history if each["reason"] == "GateReleased"]
    tell_by_the_scheduler(bench)
    found = as_planned(engine)["default/train"]
    assert found.waits_for.startswith(f"{why}; pool a100-fabric1 has")
    assert why.startswith("1 x A100 40G: 0/1 nodes: 1 were unschedulable")


def test_another_process_says_the_reason_of_the_release_too(served: Quiet) -> None:
    """After a restart, and on a replica that does not lead: the reason is a condition of the pod."""
    engine, bench = served
    bench.put({**gated_pods.node(), "spec": {**gated_pods.node()["spec"], "unschedulable": True}})
    gated_pods.ask(bench)
    bench.reconcile(GatesKey())
    (why,) = [each["message"] for each in engine.reporter.history if each["reason"] == "GateReleased"]
    released = bench.api.one(PODS, "train", "default")
    (told,) = [each for each in released["status"]["conditions"] if each["type"] == pods.SERVED]
    tell_by_the_scheduler(bench)
    assert (told["status"], told["reason"], told["message"]) == ("False", "GateReleased", why)
    other = ControllerManager(bench.api.client, bench.fabric, engine.config, events=False, metrics=bench.metrics)
    for store, kept in zip(other.state.stores.values(), engine.state.stores.values(), strict=True):
        for raw in kept.list():
            store.upsert(raw)
    other.state.snapshot = engine.state.snapshot
    assert as_planned(other)["default/train"].waits_for.startswith(f"{why}; pool a100-fabric1 has")
    other.stop()


def test_policy_of_an_older_version_keeps_no_release_back(served: Quiet, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, bench = served

    def refuse(*_args: object) -> None:
        raise Forbidden(403, "Forbidden", "of a pod's status the controllers only set nominatedNodeName")

    monkeypatch.setattr(PodWriter, "tell_not_served", refuse)
    bench.put({**gated_pods.node(), "spec": {**gated_pods.node()["spec"], "unschedulable": True}})
    gated_pods.ask(bench)
    bench.reconcile(GatesKey())
    told = {each["reason"]: each["message"] for each in engine.reporter.history}
    assert "GateReleased" in told
    assert told["Trouble"].startswith("the reason why pods are not served cannot be written on them: ")
    assert engine.gating.passes.problem() == ""


def test_release_is_an_event_on_pod_and_claim(held: Bench) -> None:
    """A claim that another pod has its devices by gets none."""
    events = Events()
    held.reporter._recorder = t.cast(Recorder, events)
    shared = gated_pods.allocated("shared", "gpu-0")
    both = gated_pods.pod("both")
    both["spec"]["resourceClaims"] = [{"name": name, "resourceClaimName": name} for name in ("train", "shared")]
    held.put(gated_pods.claim("train", cel=MISSPELT), gated_pods.pod("train"), shared, both)
    held.reconcile(GatesKey())
    told = {(kind, name) for kind, name, reason, _type in events.seen if reason == "GateReleased"}
    assert told == {("Pod", "train"), ("ResourceClaim", "train"), ("Pod", "both")}
