# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each claim waits for, in sentences, and what a plan says before it is carried out."""

from __future__ import annotations

import re
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import PoolKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.dry_run import difference, forecast
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.explain import as_planned, explain
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device
from ansible_collections.composable.infra.tests.unit.reconcile.oneshot.explain_support import (
    Quiet,
)

RESULT = objects.pool_result()


def said(quiet: Quiet, *raws: dict[str, t.Any]) -> WaitReason:
    """The verdict on the only claim among these objects."""
    quiet[1].put(*raws)
    (found,) = explain(quiet[0])
    return found


def use(engine: ControllerManager, bench: Bench, handovers: dict[str, str]) -> None:
    """Have models with these handovers, and an agent on the node."""
    settings = replace(engine.config.settings, handover_models=handovers)
    engine.config = replace(engine.config, settings=settings)
    engine.state.settings = settings


def selecting(product: str, count: int = 1, **more: t.Any) -> dict[str, t.Any]:
    """An unallocated claim whose selector names a product."""
    raw = objects.claim("train", **more)
    cel = f"device.attributes['gpu.nvidia.com'].productName == '{product}'"
    raw["spec"]["devices"]["requests"] = [{"name": "r", "exactly": {
        "deviceClassName": "gpu", "count": count, "selectors": [{"cel": {"expression": cel}}]}}]
    return raw


def test_claim_that_waits_for_its_device(quiet: Quiet) -> None:
    found = said(quiet, objects.claim("train", RESULT), objects.resource("gpu-a", asked=2, request="x"))
    assert found.claim == "default/train"
    assert re.fullmatch(r"1 x A100 40G on node node-0, 1 requested from the CDI Manager \d+\.\d s ago", found.waits_for)
    assert found.evidence["node"] == "node-0"


def test_claim_that_is_served(quiet: Quiet) -> None:
    found = said(quiet, objects.claim("train", objects.local_result()))
    assert (found.waits_for, found.since, found.evidence) == ("", 0.0, {"node": "node-0"})


UP = Evidence("Preparing", "d1", uuid="GPU-d1").with_step("OnBus", 1.0).with_step("Bound", 2.0)


def test_what_the_node_did_for_a_device_that_comes(quiet: Quiet) -> None:
    coming = objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=2, request="x", NODE=UP.to_json())
    found = said(quiet, objects.claim("train", RESULT), coming)
    assert found.evidence["node_steps"] == [{
        "resource": "gpu-a", "device": "GPU-d1", "phase": "Preparing",
        "steps": {"OnBus": "1970-01-01T00:00:01.000000Z", "Bound": "1970-01-01T00:00:02.000000Z"}}]


def test_what_the_node_did_for_the_device_that_a_claim_has(quiet: Quiet) -> None:
    ready = UP.with_phase("Ready").with_trouble("LinkDegraded", "x4 of x16", 3.0)
    raws = [objects.resource(f"gpu-{uid}", device=uid, serial=f"GPU-{uid}", state="Online", NODE=note)
            for uid, note in (("d1", ready.to_json()), ("d2", Evidence("Ready", "d2").to_json()))]
    found = said(quiet, objects.claim("train", objects.local_result()), objects.local_slice("GPU-d1", "GPU-d2"), *raws)
    (steps,) = found.evidence["node_steps"]
    assert (steps["resource"], steps["phase"], steps["trouble"]) == ("gpu-d1", "Ready", "x4 of x16")


@pytest.mark.parametrize("kind", [objects.RESCHEDULE, objects.FAILED])
def test_claim_that_the_scheduler_must_act_on(quiet: Quiet, kind: str) -> None:
    found = said(quiet, objects.claim("train", RESULT, devices=[objects.told(RESULT, kind, "the reason")]))
    assert found.waits_for == f"the scheduler to act on {kind}: the reason"


def test_claim_of_a_ready_device_waits_for_the_scheduler_until_its_pod_is_bound(quiet: Quiet) -> None:
    """Where no pods are held, those that are bound are not watched."""
    ready = objects.claim("train", RESULT, devices=[objects.told(RESULT, objects.READY)])
    found = said(quiet, ready, objects.pod())
    assert found.waits_for == "the scheduler to bind its pod: it checks FabricDeviceReady every 5 s"
    found = said(quiet, {**objects.pod(), "spec": {**objects.pod()["spec"], "nodeName": "node-0"}})
    assert (found.waits_for, found.since, found.evidence) == ("", 0.0, {"node": "node-0"})
    quiet[1].drop(objects.pod())
    assert said(quiet).waits_for == ""


def test_handover_of_claims_with_and_without_devices(quiet: Quiet) -> None:
    """A claim that has a device of its node may have it by any handover."""
    assert said(quiet, objects.claim("train", RESULT)).handover == "reschedule"
    assert said(quiet, objects.claim("train", objects.local_result())).handover == ""
    assert said(quiet, selecting("NVIDIA T4", pods=())).handover == ""
    assert said(quiet, selecting("NVIDIA T4"), objects.pod()).handover == "reschedule"
    held = {**objects.pod()["spec"], "schedulingGates": [{"name": pods.GATE}]}
    assert said(quiet, {**objects.pod(), "spec": held}).handover == "gated"


def test_claim_of_a_held_pod_waits_for_its_first_plan(quiet: Quiet) -> None:
    held = {**objects.pod()["spec"], "schedulingGates": [{"name": pods.GATE}]}
    quiet[1].put(selecting("NVIDIA T4"), {**objects.pod(), "spec": held})
    found = as_planned(quiet[0])["default/train"]
    assert found.waits_for == "the first plan for its gated pod train"


def test_handover_of_a_model_that_is_direct(quiet: Quiet) -> None:
    engine, bench = quiet
    use(engine, bench, {A100: "direct"})
    assert said(quiet, selecting("NVIDIA A100 40G"), objects.pod()).handover == "direct"
    assert said(quiet, selecting("NVIDIA T4")).handover == "reschedule"
    assert said(quiet, objects.claim("train")).handover == "", "its selectors allow unlike models"
    assert said(quiet, objects.claim("train", RESULT)).handover == "direct"


def test_what_a_direct_claim_waits_for_on_its_way(quiet: Quiet) -> None:
    """The CDI Manager, then the node agent, then the scheduler; then it keeps the device and waits for nothing."""
    engine, bench = quiet
    use(engine, bench, {A100: "direct"})
    name = "a100-fabric1/a100-0"
    claim, pod = objects.claim("train", RESULT), objects.pod()
    asked = said(quiet, claim, pod, objects.resource("gpu-a", asked=2, POOL_DEVICE=name))
    assert asked.waits_for.endswith("on node node-0: requested from the CDI Manager")
    attached = said(quiet, objects.resource("gpu-a", device="d1", serial="GPU-d1", NODE=UP.to_json(), POOL_DEVICE=name))
    assert attached.waits_for.endswith("attached, but the node agent has not reported Ready yet (so far: Bound)")
    told = said(quiet, objects.claim("train", RESULT, devices=[objects.told(RESULT, objects.READY)]))
    assert told.waits_for.startswith("the scheduler to bind its pod")
    served = said(quiet, {**pod, "spec": {**pod["spec"], "nodeName": "node-0"}})
    assert (served.waits_for, served.evidence["node"]) == ("", "node-0")
    assert {each.handover for each in (asked, attached, told, served)} == {"direct"}


def test_claim_of_a_pod_group_that_has_its_device_waits_for_nothing(quiet: Quiet) -> None:
    """It is reserved for the group, whose pods are not known."""
    done = objects.claim("train", RESULT, reservedFor=[objects.POD_GROUP],
                         devices=[objects.told(RESULT, objects.READY)])
    assert said(quiet, done).waits_for == ""


def test_claim_that_is_reserved_for_nobody(quiet: Quiet) -> None:
    assert said(quiet, objects.claim("train", RESULT, pods=())).waits_for == (
        "a pod: the claim is allocated but reserved for no pod")


def test_claim_without_a_pod(quiet: Quiet) -> None:
    assert said(quiet, objects.claim("train", pods=())).waits_for == "a pod that uses it"


def test_claim_that_finds_no_free_device_tells_who_has_them(quiet: Quiet) -> None:
    found = said(quiet, selecting("NVIDIA A100 40G", 2), objects.pod(), objects.pool_slice(),
                 objects.resource("a", device="d1"), objects.resource("b", device="d2"),
                 objects.resource("c", device="d3", node="node-1"), objects.resource("d"))
    assert found.waits_for == ("a node with 2 free devices of A100 40G: pool a100-fabric1 has 0 free, "
                               "attached: 2 x node-0, 1 x node-1")
    assert found.evidence == {"pod": "train", "pools": {
        "a100-fabric1": {"free": 0, "promised": 0, "attached": {"node-0": 2, "node-1": 1}}}}


def test_scheduler_has_the_last_word(quiet: Quiet) -> None:
    pod = objects.pod(conditions=[{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}])
    found = said(quiet, selecting("NVIDIA T4"), pod, objects.pool_slice("t4-0", pool="t4-fabric1"))
    assert found.waits_for == ("a node with 1 free device of T4: pool t4-fabric1 has 1 free, attached: none "
                               "(scheduler: 0/2 nodes are available)")


@pytest.mark.parametrize("more", [
    " preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
    " still not schedulable, preemption: 0/2 nodes are available: 2 No preemption victims found."])
def test_what_the_scheduler_says_of_preemption_is_left_out(quiet: Quiet, more: str) -> None:
    """It says the same as the first half, and no pod is preempted for a device."""
    says = "0/2 nodes are available: 2 cannot allocate all claims."
    pod = objects.pod(conditions=[{"type": "PodScheduled", "status": "False", "message": says + more}])
    found = said(quiet, selecting("NVIDIA T4"), pod, objects.pool_slice("t4-0", pool="t4-fabric1"))
    assert found.waits_for.endswith(f"(scheduler: {says})")


def test_why_devices_cannot_be_attached_to_nodes(quiet: Quiet) -> None:
    refused = [{**objects.request(f"r{n}", model="T4", node=f"node-{n}"), "status": {"error": f"trouble {n}"}}
               for n in range(4)]
    other = {**objects.request("other", model=A100), "status": {"error": "of another model"}}
    found = said(quiet, selecting("NVIDIA T4"), objects.pod(), other, *refused)
    assert found.waits_for.endswith("; ".join(["", *(f"T4 cannot be attached to node node-{n}: trouble {n}"
                                                     for n in range(3))]))
    assert len(found.evidence["refused"]) == 4


def test_why_a_node_takes_up_no_device(quiet: Quiet) -> None:
    hung = Evidence("Releasing", "d1").with_trouble("RemovalHung", "the removal hangs", 1.0)
    found = said(quiet, selecting("NVIDIA T4"), objects.pod(), objects.resource(device="d1", NODE=hung.to_json()))
    assert found.waits_for.endswith(
        "; T4 cannot be attached to node node-0: node node-0 gets no new device: the removal hangs")


def test_claim_that_names_no_model_may_have_any(quiet: Quiet) -> None:
    found = said(quiet, objects.claim("train"), objects.pod())
    assert found.waits_for.startswith("a node with 1 free device of A100 40G or H100 80G or T4: pool a100-fabric1")


def test_no_pool(quiet: Quiet) -> None:
    quiet[0].state.snapshot = None
    assert said(quiet, selecting("NVIDIA T4"), objects.pod()).waits_for == (
        "a node with 1 free device of T4: no pool is published")


def test_promised_devices_are_not_free(quiet: Quiet) -> None:
    quiet[1].put(selecting("NVIDIA A100 40G"), objects.pod(), objects.claim("other", RESULT),
                 objects.pool_slice("a100-0", "a100-1"))
    (found,) = [v for v in explain(quiet[0]) if v.claim == "default/train"]
    assert found.evidence["pools"]["a100-fabric1"] == {"free": 1, "promised": 1, "attached": {}}


def test_free_devices_are_never_fewer_than_none(quiet: Quiet) -> None:
    quiet[1].put(selecting("NVIDIA A100 40G"), objects.pod(), objects.pool_slice(),
                 objects.claim("other", RESULT, devices=[objects.told(RESULT, objects.RESCHEDULE)]))
    (found,) = [v for v in explain(quiet[0]) if v.claim == "default/train"]
    assert found.evidence["pools"]["a100-fabric1"]["free"] == 0


def test_claims_are_sorted(quiet: Quiet) -> None:
    quiet[1].put(*[objects.claim(n, objects.local_result()) for n in ("b", "c", "a")])
    assert [v.claim for v in explain(quiet[0])] == ["default/a", "default/b", "default/c"]


def kinds(quiet: Quiet) -> list[str]:
    """Kinds of what would be done, in order."""
    return [a["action"] for a in forecast(quiet[0]).as_dicts()]


def test_forecast_shows_sizes_and_the_attaches_that_follow(quiet: Quiet) -> None:
    quiet[1].put(objects.claim("train", RESULT, objects.pool_result("a100-1")))
    found = kinds(quiet)
    assert found.count("SetSize") == 1
    assert found.count("CreateResource") == 2
    assert found.index("WritePool") < found.index("LabelNode") < found.index("SetSize") < found.index("CreateResource")


def test_forecast_writes_and_asks_nothing(quiet: Quiet) -> None:
    quiet[1].put(objects.claim("train", RESULT))
    forecast(quiet[0])
    assert quiet[1].api.writes() == []
    assert quiet[1].fabric.attaches == []


def test_forecast_of_what_was_done_is_empty(quiet: Quiet) -> None:
    bench = quiet[1]
    bench.run()
    for model in bench.settings.models:
        bench.reconcile(PoolKey(model.cdi_model_name, 1))
    assert kinds(quiet) == []


def test_forecast_reads_the_machine_of_an_unanswered_request(quiet: Quiet) -> None:
    quiet[1].put(objects.claim("train", RESULT), objects.request(), objects.resource("gpu-a", asked=2))
    quiet[1].fabric.attached["d1"] = device("d1")
    assert "Adopt" in kinds(quiet)
    quiet[1].fabric.machine_error = Unavailable("not now")
    assert "Adopt" not in kinds(quiet)


def test_difference(quiet: Quiet) -> None:
    quiet[1].put(objects.claim("train", RESULT), objects.claim("bad", objects.pool_result(pool="x-fabric1")),
                 objects.request(size=0))
    found = difference(forecast(quiet[0]))
    assert found["before"] == {f"node-0 {A100}": 0}
    assert found["after"][f"node-0 {A100}"] == 1
    assert found["after"]["claim default/bad"] == objects.FAILED
    assert found["after"]["pool a100-fabric1"] == ["a100-0", "a100-1", "a100-2", "a100-3"]
    assert found["after"]["node-0 labels"]["cohdi.io/fabric"] == "1"


def test_held_pod_whose_claim_the_scheduler_will_make(quiet: Quiet) -> None:
    cel = f'device.attributes["{DRIVER}"].productName == "NVIDIA {A100}"'
    raw = gated_pods.pod("train")
    del raw["spec"]["resourceClaims"]
    raw["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]
    found = said(quiet, gated_pods.node(), raw,
                 {"apiVersion": "v1", "kind": "Namespace", "metadata": gated_pods.opted_in("default")},
                 {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": objects.meta(DRIVER),
                  "spec": {"extendedResourceName": "nvidia.com/gpu", "selectors": [{"cel": {"expression": cel}}]}})
    assert (found.claim, found.waits_for, found.handover) == (
        "default/train-extended-resources", f"1 x {A100} on node node-0", "gated")
