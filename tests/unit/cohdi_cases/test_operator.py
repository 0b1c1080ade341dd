# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What CoHDI's tests of composable-resource-operator show, case by case, on our operator. Its case is in the name.

Where ours differs on purpose the docstring says so, and docs/contributors/compatibility.md says why.
"""

from __future__ import annotations

import time
import typing as t

import jsonschema
import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Refused, Uncertain
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.model.resource import NodeWork
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import Detach, SetState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey, NodeRecordsKey, RequestKey
from ansible_collections.composable.infra.tests.unit.fabric.drivers.cm.fake_cm import MACHINE, MODEL, FakeCm, Item
from ansible_collections.composable.infra.tests.unit.fabric.drivers.cm.fake_cm import connected as cm
from ansible_collections.composable.infra.tests.unit.fabric.drivers.fm import test_driver
from ansible_collections.composable.infra.tests.unit.fabric.drivers.fm.driver_support import (
    Connect as Fm,
)
from ansible_collections.composable.infra.tests.unit.fabric.drivers.fm.driver_support import (
    entry,
    listing,
)
from ansible_collections.composable.infra.tests.unit.filters.report_filters_support import (
    fabric_devices,
    fabric_report,
)
from ansible_collections.composable.infra.tests.unit.lab.deploy_support import (
    schema,
)
from ansible_collections.composable.infra.tests.unit.node import test_release
from ansible_collections.composable.infra.tests.unit.node.fake_node import FakeNode, Notes
from ansible_collections.composable.infra.tests.unit.planning.builders import (
    A100,
    attached,
    compose,
    of,
    one,
    online,
    request,
)
from ansible_collections.composable.infra.tests.unit.planning.node import test_detach
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.config_support import (
    FABRIC,
    document,
    refused,
)
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device
from ansible_collections.composable.infra.tests.unit.reconcile.node.lost_nodes_support import (
    gone,
    reconcile,
)


def status_of(bench: Bench, name: str = "request") -> dict[str, t.Any]:
    """Status of a ComposabilityRequest after its turn."""
    bench.reconcile(RequestKey(name))
    found: dict[str, t.Any] = bench.api.one(COMPOSABILITY_REQUESTS, name)["status"]
    return found


def having(bench: Bench, work: Evidence | None = None, **more: t.Any) -> None:
    """A ComposableResource whose device is attached, and what the node did about it; nothing does more by itself."""
    bench.hands.idle = True
    bench.fabric.attached["d1"] = device("d1")
    more |= {"NODE": work.to_json()} if work else {}
    bench.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, **more))


def test_case_36_duplicate_samenode_request_and_differentnode_with_a_target(bench: Bench) -> None:
    """Upstream's webhook denies both; without one, of two requests the first by name has the devices."""
    bench.put(objects.claim("train", objects.pool_result()), objects.request("a", 0), objects.request("b", 0))
    bench.run()
    sizes = {r["metadata"]["name"]: r["spec"]["resource"]["size"] for r in bench.api.of(COMPOSABILITY_REQUESTS)}
    assert sizes == {"a": 1, "b": 0}
    assert len(bench.fabric.attaches) == 1


@pytest.mark.parametrize("size", range(len(test_detach.ORDER)))
def test_case_37_shrink_with_mixed_states_takes_them_in_upstreams_order(size: int) -> None:
    test_detach.test_order_of_leaving(size)


@pytest.mark.parametrize(("other_spec", "said"), [
    ({"milli_cpu": 8001}, "node node-0 has 8 cpu, but other_spec.milli_cpu requests 8001"),
    ({"memory": 2**30 + 1}, "node node-0 has 1Gi memory, but other_spec.memory requests 1073741825"),
    ({"ephemeral_storage": 1}, "node node-0 has 0 ephemeral-storage, but other_spec.ephemeral_storage requests 1"),
    ({"allowed_pod_number": 111}, "node node-0 has 110 pods, but other_spec.allowed_pod_number requests 111"),
])
def test_case_38_target_without_the_capacity_is_waited_for_with_an_error(
        bench: Bench, other_spec: dict[str, int], said: str) -> None:
    capacity = {"cpu": "8", "memory": "1Gi", "pods": "110"}
    bench.put({**objects.node(), "status": {"capacity": capacity}}, objects.request(other_spec=other_spec))
    bench.reconcile(NodeKey("node-0"))
    assert (bench.fabric.attaches, status_of(bench)["error"]) == ([], said)
    bench.put(objects.request("request", 1, other_spec={"milli_cpu": 8000, "memory": 2**30}))
    bench.put({**objects.node(), "status": {"capacity": capacity}}, objects.claim("train", objects.pool_result()))
    bench.run(1)
    assert len(bench.fabric.attaches) == 1


def test_case_39_target_node_that_vanishes_takes_resource_and_taint_with_it(agent: Bench) -> None:
    """Upstream leaves the device attached for ever; ours has it returned first."""
    agent.api.paths = {"/apis/resource.k8s.io/v1": {"resources": [{"name": "devicetaintrules"}]}}
    agent.state.note_taints("gpu-a", [("gpu.nvidia.com", "node-0", "gpu-0")])
    gone(agent, 301)
    reconcile(agent)
    assert agent.fabric.detaches == [("machine-0", "d1")]
    assert agent.api.of(COMPOSABLE_RESOURCES) == []
    assert ("delete", "devicetaintrules", "gpu-a-taint") in [(c.verb, c.plural, c.name) for c in agent.api.writes()]


@pytest.mark.parametrize(("op_status", "accepted"), [("00", True), ("10", True), ("20", False), ("3", False)])
def test_case_40_fm_warning_is_accepted_and_critical_or_3_refused(fm: Fm, op_status: str, accepted: bool) -> None:
    if accepted:
        test_driver.test_attach_accepts_ok_and_warning(fm, op_status, {"00": "OK", "10": "Warning"}[op_status])
    else:
        test_driver.test_attach_refuses_a_sick_device_and_names_it_to_be_returned(
            fm, op_status, {"20": "Critical", "3": "Unknown"}[op_status])


def test_case_41_fm_reply_without_a_resource_is_an_error(fm: Fm) -> None:
    """Ours takes it for a lost reply: the device may be attached, and is then found on the machine."""
    manager, _session = fm(lambda _call: listing(entry("m1", 1)))
    with pytest.raises(Uncertain, match=r"names no new device\. It may have taken effect"):
        manager.attach("m1", "A100")


def test_case_42_cm_device_that_is_not_ready_is_waited_for_and_add_failed_says_why(
        monkeypatch: pytest.MonkeyPatch) -> None:
    slow = FakeCm(looks=5)
    assert cm(slow, monkeypatch).attach(MACHINE, MODEL).devices[0].uid == "new-1"
    assert slow.reads > 5
    with pytest.raises(Refused, match="ADD_FAILED: link training"):
        cm(FakeCm(ends=["ADD_FAILED"]), monkeypatch).attach(MACHINE, MODEL)


def test_case_43_deleted_before_it_has_a_device_is_gone_at_once(bench: Bench) -> None:
    bench.put(objects.request(size=0), objects.resource("gpu-a", deleted=True, ATTACH=cohdi.NOT_ASKED))
    bench.run(1)
    assert (bench.api.of(COMPOSABLE_RESOURCES), bench.fabric.detaches) == ([], [])
    test_detach.test_deleted_resource_that_was_never_asked_for_goes_at_once()


def test_case_44_deleted_with_a_device_and_without_an_error(bench: Bench) -> None:
    """Upstream brings it up first; ours has the node let it go, and detaches it."""
    having(bench, deleted=True)
    bench.put(objects.request(size=0))
    bench.reconcile(NodeKey("node-0"))
    bench.idle()
    assert bench.status()["state"] == "Detaching"
    assert cohdi.annotation(bench.api.one(COMPOSABLE_RESOURCES, "gpu-a"), cohdi.RELEASE)


def test_case_45_busy_gpu_or_open_device_file_stays_detaching(
        bench: Bench, node: FakeNode, notes: Notes, gpu_a: Evidence) -> None:
    test_release.test_device_that_is_open_stays(node, notes, gpu_a)
    trouble = notes.last.trouble
    assert trouble
    refused = Evidence("Ready", "d1", uuid="GPU-d1").with_trouble(trouble.reason, trouble.message, time.time())
    having(bench, refused, deleted=True, state="Detaching", RELEASE="now")
    bench.put(objects.request(size=0), objects.local_slice())
    bench.run(2)
    assert (bench.status()["state"], bench.fabric.detaches) == ("Detaching", [])
    assert "pid 42 (python)" in bench.status()["error"]


def test_case_46_remove_failed_is_recorded_with_its_reason_and_tried_again(
        bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCm(items=[Item("d1", "ADD_COMPLETE")], ends=["REMOVE_FAILED"])
    manager = cm(fake, monkeypatch)
    having(bench, Evidence("Removed", "d1", release="now"), deleted=True, state="Detaching", RELEASE="now")
    bench.put(objects.request(size=0))
    bench.operations.fabric = manager
    action = Detach("node-0", "not wanted", "gpu-a", MACHINE, "d1")
    bench.detaches.detach(action)
    bench.idle()
    assert (bench.status()["state"], bench.status()["cdi_device_id"]) == ("Detaching", "d1")
    assert "REMOVE_FAILED: in use" in bench.status()["error"]
    bench.detaches.detach(action)
    bench.idle()
    assert (bench.status()["state"], fake.items) == ("Deleting", [])


def test_case_47_device_that_a_slice_still_shows_stays_detaching() -> None:
    shown = online("r", deleting=True, node_work=NodeWork(asked=True, removed=True))
    plan = compose(request(0), shown)
    assert (one(plan, SetState).state, of(plan, Detach)) == ("Detaching", [])
    assert "a ResourceSlice of the node still shows the device" in one(plan, SetState).error
    hidden = attached("r", deleting=True, node_work=NodeWork(asked=True, removed=True))
    assert len(of(compose(request(0), hidden), Detach)) == 1


@pytest.mark.parametrize("seen", [60.0, 601.0, 6001.0], ids=["under 10 min", "over", "long after"])
def test_case_48_orphan_is_reported_and_left_alone(bench: Bench, seen: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream detaches it after 10 min; it may be an administrator's, so ours shows it in the report."""
    bench.fabric.attached["stranger"] = device("stranger")
    bench.put(objects.request(size=0))
    bench.run()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + seen)
    bench.run()
    assert (bench.api.of(COMPOSABLE_RESOURCES), bench.fabric.detaches) == ([], [])
    assert [d["uid"] for d in report(bench)["strangers"]] == ["stranger"]
    having(bench, state="Online")
    assert [d["uid"] for d in report(bench)["strangers"]] == ["stranger"]


def report(bench: Bench) -> dict[str, t.Any]:
    """The report of the fabric as the playbook prints it."""
    machines = [{"uid": m.uid, "name": m.name, "fabric": m.fabric, "devices": [
        {"uid": d.uid, "model": d.model, "fabric": d.fabric, "state": d.state} for d in m.devices]}
        for m in bench.fabric.machines()]
    rows = fabric_devices(bench.api.of(COMPOSABLE_RESOURCES))
    found: dict[str, t.Any] = fabric_report(
        rows, [objects.node()], {"machines": machines, "free": [], "problems": {}}, [])
    return found


def test_case_49_orphan_on_a_node_without_a_driver_is_left_alone(bench: Bench) -> None:
    """What upstream's syncer made for an orphan earlier gets no device, and nothing is detached for it."""
    bench.fabric.attached["stranger"] = device("stranger")
    raw = objects.resource("gpu-a", state="", request="")
    raw["metadata"]["labels"] = {cohdi.RECLAIMED: "stranger"}
    bench.put(raw)
    bench.run()
    assert (bench.fabric.attaches, bench.fabric.detaches) == ([], [])
    assert len(bench.api.of(COMPOSABLE_RESOURCES)) == 1
    assert "to detach device stranger, which was attached without a ComposableResource" in bench.status()["error"]


@pytest.mark.parametrize("wrong", [
    {"type": "nic"}, {"size": -1}, {"model": ""}, {"allocation_policy": "roundrobin"}, {"other_spec": {"memory": -1}},
    {"other_spec": {"milli_cpu": -1}}, {"other_spec": {"ephemeral_storage": -1}},
    {"other_spec": {"allowed_pod_number": -1}},
], ids=str)
def test_case_50_api_rejects_what_upstreams_does(wrong: dict[str, t.Any]) -> None:
    """On a real API server: tests/e2e/lab/test_lab.py."""
    found = schema("composabilityrequests")["spec"]["properties"]["resource"]
    good = {"type": "gpu", "model": A100, "size": 1, "target_node": "node-0", "allocation_policy": "samenode"}
    jsonschema.validate(good, found)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**good, **wrong}, found)


@pytest.mark.parametrize(("changes", "said"), [
    ({"node_operations": "DEVICE_PLUGIN"},
     "node_operations: 'DEVICE_PLUGIN' is not usable: must be one of agent, ssh, none"),
    ({"fabric": {**FABRIC, "manager": "FTI_CDI"}}, "manager: 'FTI_CDI' is not allowed. Allowed are "),
])
def test_case_51_bad_choice_in_the_configuration(changes: dict[str, t.Any], said: str) -> None:
    """Upstream starts and fails in every reconcile; ours does not start."""
    assert refused(document(**changes)).startswith(said)


def test_case_53_running_that_is_edited_or_deleted(bench: Bench) -> None:
    """Upstream goes through NodeAllocating; ours plans an edited request in the same pass: it is Updating at once."""
    having(bench, Evidence("Ready", "d1", uuid="GPU-d1"), state="Online")
    bench.put(objects.request(), objects.local_slice("GPU-d1"))
    assert status_of(bench)["state"] == "Running"
    bench.put({**objects.request(size=2), "status": status_of(bench)})
    edited = status_of(bench)
    assert (edited["state"], edited["scalarResource"]["size"]) == ("Updating", 2)
    raw = bench.api.one(COMPOSABILITY_REQUESTS, "request")
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    bench.put(raw)
    assert status_of(bench)["state"] == "Cleaning"
    bench.drop(bench.api.one(COMPOSABLE_RESOURCES, "gpu-a"))
    assert status_of(bench)["state"] == "Deleting"


def test_case_54_missing_driver_or_plugin_on_attach(bench: Bench) -> None:
    """Without the plugin's pod it stays Attaching with the error; where the driver does not take it, ours gives the
    device back, since another node may use it."""
    silent = Evidence("Ready", "d1", uuid="GPU-d1").with_trouble("NotAnnounced", "no slice shows it", time.time())
    having(bench, silent)
    bench.put(objects.request(), objects.claim("train", objects.pool_result()))
    bench.reconcile(NodeKey("node-0"))
    bench.reconcile(NodeRecordsKey("node-0"))
    assert (bench.status()["state"], bench.status()["error"]) == ("Attaching", "no slice shows it")
    failed = Evidence("Preparing", "d1").with_trouble("DriverNotBound", "nvidia did not take it", time.time())
    having(bench, failed)
    bench.reconcile(NodeKey("node-0"))
    assert bench.api.one(COMPOSABLE_RESOURCES, "gpu-a")["metadata"]["deletionTimestamp"]
    assert bench.api.one(CLAIMS, "train", "default")
