# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detaching: nothing leaves that a claim holds or that its node has not let go."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Machine, Task
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable, Uncertain
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import Detach
from ansible_collections.composable.infra.plugins.module_utils.reconcile.controller import ADDED
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey, NodeRecordsKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.dispatch import Dispatch
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node.claim_check import ClaimCheck
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.plugins.module_utils.runtime.work_queue import WorkQueue
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import unreachable
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

DETACH = Detach("node-0", "no longer wanted", "gpu-a", "machine-0", "d1")
LET_GO = Evidence("Removed", "d1", release="now").to_json()
FORCED = Detach("node-0", "no longer wanted", "gpu-a", "machine-0", "d1", force=True)


@pytest.fixture
def leaving(bench: Bench) -> Bench:
    """A deleted ComposableResource whose device is attached, and which the node has let go."""
    bench.fabric.attached["d1"] = device("d1")
    bench.api.paths = {"/apis/resource.k8s.io/v1": {"resources": [{"name": "devicetaintrules"}]}}
    bench.put(objects.local_slice("GPU-d1"),
              objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, deleted=True, state="Online",
                               RELEASE="now", NODE=LET_GO))
    return bench


def detach(bench: Bench, action: Detach = DETACH) -> None:
    """Detach, and wait for the end of it."""
    bench.detaches.detach(action)
    bench.idle()


def test_idle_device_is_detached(leaving: Bench) -> None:
    detach(leaving)
    assert leaving.fabric.detaches == [("machine-0", "d1")]
    assert leaving.status() == {"state": "Deleting", "error": "", "device_id": "GPU-d1", "cdi_device_id": ""}
    assert leaving.told("Detached") == ["device d1 detached from node node-0"]
    leaving.wait(lambda: leaving.finished == ["node-0"], "the controllers are told")
    assert len(leaving.metrics.observed("detach_duration_seconds")) == 1


def test_device_that_the_manager_does_not_show_was_not_detached(
    leaving: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another manager took the place of the old one and names the device anew. No driver sends a request then."""
    leaving.fabric.attached = {"new-d1": device("new-d1")}
    monkeypatch.setattr(leaving.fabric, "detach", lambda *_unused, **_more: Task(True))
    detach(leaving)
    assert leaving.status()["state"] == "Deleting"
    assert leaving.told("Detached") == []
    assert leaving.told("DeviceGone") == [
        "the CDI Manager shows no device d1 on machine machine-0. If it shows the device by another name, detach that "
        "device with the module fabric_device"]
    (entry,) = [each for each in leaving.reporter.history if each["reason"] == "DeviceGone"]
    assert entry["type"] == "Warning"


def test_device_whose_request_had_no_reply_was_detached(leaving: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second attempt finds it gone, and sends no request."""
    leaving.fabric.detach_error = Uncertain("the reply was lost")
    detach(leaving)
    leaving.fabric.attached.clear()
    monkeypatch.setattr(leaving.fabric, "detach", lambda *_unused, **_more: Task(True))
    detach(leaving)
    assert leaving.told("Detached") == ["device d1 detached from node node-0"]
    assert leaving.told("DeviceGone") == []


def test_device_that_the_machine_still_has_is_not_given_up(leaving: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(leaving.fabric, "detach", lambda *_unused, **_more: Task(True))
        detach(leaving)
        assert leaving.status()["state"] == "Detaching"
        assert "machine machine-0 still has it" in leaving.status()["error"]
        assert leaving.told("Detached") == []
    detach(leaving)
    assert leaving.status()["state"] == "Deleting"


def test_device_is_not_given_up_while_the_machine_cannot_be_read(
    leaving: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(uid: str) -> Machine:
        raise Unavailable("the CDI Manager does not answer")

    monkeypatch.setattr(leaving.fabric, "machine", away)
    detach(leaving)
    assert leaving.status()["state"] == "Detaching"
    assert leaving.told("Detached") == []


def test_device_that_a_claim_holds_stays(leaving: Bench) -> None:
    leaving.put(objects.claim("train", objects.local_result("gpu-0")))
    detach(leaving)
    assert leaving.fabric.detaches == []
    assert leaving.status()["state"] == "Detaching"
    assert leaving.status()["error"] == "not detached: claim default/train uses the device"
    assert leaving.told("DetachRefused") == ["claim default/train uses the device"]


def refusals(bench: Bench, reason: str) -> int:
    """How many detaches were refused for a reason."""
    return bench.metrics.get("detaches_total", manager="fm", model=A100, outcome="refused", reason=reason)


def test_refused_detaches_are_counted_by_what_keeps_the_device(leaving: Bench) -> None:
    leaving.put(objects.claim("train", objects.local_result("gpu-0")))
    detach(leaving)
    assert (refusals(leaving, "claimed"), refusals(leaving, "node_holds")) == (1, 0)
    detach(leaving)  # the claim has it back from the node
    assert (refusals(leaving, "claimed"), refusals(leaving, "node_holds")) == (1, 1)


def test_detaches_are_counted_by_their_outcome(leaving: Bench) -> None:
    leaving.fabric.detach_error = Unavailable("the CDI Manager does not answer")
    detach(leaving)
    leaving.fabric.detach_error = None
    detach(leaving)
    labels = {"manager": "fm", "model": A100}
    assert leaving.metrics.get("detaches_total", **labels, outcome="failed", reason="unavailable") == 1
    assert leaving.metrics.get("detaches_total", **labels, outcome="succeeded", reason="none") == 1


def test_what_keeps_a_device_is_told_once_and_not_at_every_trial(leaving: Bench) -> None:
    leaving.put(objects.claim("train", objects.local_result("gpu-0")))
    for _unused in range(5):
        detach(leaving)
    assert leaving.told("DetachRefused") == [
        "claim default/train uses the device", "node node-0 has not released the device"]


def test_manager_that_refuses_a_detach_is_told_of_once(leaving: Bench) -> None:
    leaving.fabric.detach_error = Unavailable("the CDI Manager does not answer")
    for _unused in range(3):
        detach(leaving)
    assert len(leaving.told("DetachFailed")) == 1


def test_claim_is_looked_for_at_the_api_server_and_not_in_what_was_seen(leaving: Bench) -> None:
    leaving.api.put(CLAIMS, objects.claim("train", objects.local_result("gpu-0")))
    detach(leaving)
    assert leaving.fabric.detaches == []


PARTITION = {"name": "gpu-0-mig-1g", "attributes": {"uuid": {"string": "MIG-x"}, "parentUUID": {"string": "GPU-d1"}}}


@pytest.mark.parametrize("whole", [True, False], ids=["beside the whole GPU", "alone"])
def test_device_of_which_a_claim_holds_a_partition_stays(leaving: Bench, whole: bool) -> None:
    shown = objects.local_slice("GPU-d1")
    shown["spec"]["devices"] = [*(shown["spec"]["devices"] if whole else ()), PARTITION]
    leaving.put(shown, objects.claim("train", objects.local_result("gpu-0-mig-1g")))
    detach(leaving)
    assert leaving.fabric.detaches == []
    assert leaving.status()["error"] == "not detached: claim default/train uses the device"
    resource, = node_snapshot(leaving.state, "node-0").resources
    assert (resource.used_by, resource.visible, resource.usable) == ("default/train", True, whole)


def test_every_part_of_a_device_is_tainted_and_all_rules_go(leaving: Bench) -> None:
    rules = "/apis/resource.k8s.io/v1"
    leaving.api.paths = {rules: {"resources": [{"name": "devicetaintrules"}]}}
    shown = objects.local_slice("GPU-d1", "GPU-other")
    shown["spec"]["devices"].insert(0, PARTITION)
    leaving.put(shown)
    detach(leaving)
    placed = [c.body["spec"]["deviceSelector"]["device"] for c in leaving.api.writes() if c.verb == "create"]
    assert placed == ["gpu-0", "gpu-0-mig-1g"]
    leaving.writer.resources.finish("gpu-a")
    assert len([c for c in leaving.api.writes() if c.verb == "delete" and c.plural == "devicetaintrules"]) == 2


def test_rule_goes_also_where_rules_may_not_be_listed(leaving: Bench) -> None:
    """One that stays would close the next device of that name to everybody."""
    detach(leaving)
    rules = ApiResource("resource.k8s.io/v1", "devicetaintrules", "DeviceTaintRule", False)
    assert [r["metadata"]["name"] for r in leaving.api.of(rules)] == ["gpu-a-taint"]
    leaving.api.fail("list", rules, Forbidden(403, "Forbidden", "no"))
    leaving.writer.resources.finish("gpu-a")
    assert leaving.api.of(rules) == []


def test_claim_on_another_device_is_no_obstacle(leaving: Bench) -> None:
    leaving.put(objects.claim("a", objects.local_result("gpu-1")), objects.claim("b", objects.local_result(pool="x")),
                objects.claim("c", {**objects.local_result(), "adminAccess": True}))
    detach(leaving)
    assert leaving.fabric.detaches


def test_device_stays_when_the_api_server_does_not_answer(leaving: Bench) -> None:
    leaving.api.fail("list", CLAIMS, unreachable())
    detach(leaving)
    assert leaving.fabric.detaches == []
    assert leaving.told("Failed") == ["the API server does not answer"]


def test_claim_that_comes_while_the_request_waits_in_a_batch_keeps_the_device(leaving: Bench) -> None:
    """CM and NEC take one request at a time: it may stand behind an attach for minutes."""
    def allocate() -> None:
        leaving.api.put(CLAIMS, objects.claim("train", objects.local_result("gpu-0")))

    leaving.fabric.queued = allocate
    detach(leaving)
    assert leaving.fabric.detaches == []
    assert leaving.status()["error"] == "not detached: claim default/train uses the device"


def test_device_that_the_node_has_not_let_go_stays(leaving: Bench) -> None:
    leaving.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, deleted=True, RELEASE="now"))
    detach(leaving)
    assert leaving.fabric.detaches == []
    assert leaving.status()["error"] == "not detached: node node-0 has not released the device"


def test_device_whose_serial_is_not_known_leaves_when_the_node_has_let_it_go(leaving: Bench) -> None:
    leaving.put(objects.resource("gpu-a", device="d1", asked=900, deleted=True, RELEASE="now", NODE=LET_GO))
    detach(leaving)
    assert leaving.fabric.detaches


def test_device_stays_once_its_release_was_withdrawn(leaving: Bench) -> None:
    """The node takes it back, also when it has not written that yet."""
    leaving.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, deleted=True, NODE=LET_GO))
    detach(leaving)
    assert leaving.fabric.detaches == []
    assert leaving.status()["error"] == "not detached: node node-0 has not released the device"


def test_device_of_a_claim_stays_while_the_nodes_slice_is_away(leaving: Bench) -> None:
    """The vendor's plugin is being upgraded: the kubelet removes its slices, the pod keeps its device."""
    leaving.put(objects.claim("train", objects.local_result("gpu-0")))
    leaving.reconcile(NodeKey("node-0"))
    leaving.reconcile(NodeRecordsKey("node-0"))
    leaving.drop(objects.local_slice("GPU-d1"))
    detach(leaving)
    assert leaving.fabric.detaches == []


def test_release_that_ended_before_this_process_began_is_requested_again(leaving: Bench) -> None:
    """It may be of a ComposableResource that a restore of etcd brought back a moment before."""
    raw = leaving.api.one(COMPOSABLE_RESOURCES, "gpu-a")
    Dispatch(leaving.state, WorkQueue(), (), (), lambda: None).watched(
        ADDED, COMPOSABLE_RESOURCES, leaving.seen(raw), None)
    detach(leaving)
    assert leaving.fabric.detaches == []
    again = leaving.api.one(COMPOSABLE_RESOURCES, "gpu-a")["metadata"]["annotations"][cohdi.RELEASE]
    assert again != "now"
    assert leaving.told("DetachRefused") == []
    leaving.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, deleted=True, state="Online",
                                 RELEASE=again, NODE=Evidence("Removed", "d1", release=again).to_json()))
    detach(leaving)
    assert leaving.fabric.detaches == [("machine-0", "d1")]


def test_object_that_a_restore_of_etcd_brought_back_proves_nothing(leaving: Bench) -> None:
    """The device was returned and attached again since, so the node has to release it again."""
    before = leaving.api.one(COMPOSABLE_RESOURCES, "gpu-a")
    detach(leaving)
    leaving.put(before)
    leaving.fabric.attached["d1"] = device("d1")
    detach(leaving)
    assert leaving.fabric.detaches == [("machine-0", "d1")]
    assert leaving.status()["error"] == (
        "not detached: the device was returned before. Node node-0 must release it again")
    assert leaving.api.one(COMPOSABLE_RESOURCES, "gpu-a")["metadata"]["annotations"][cohdi.RELEASE] != "now"


def test_force_asks_nobody(leaving: Bench) -> None:
    leaving.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, deleted=True))
    leaving.put(objects.claim("train", objects.local_result("gpu-0")))
    detach(leaving, FORCED)
    assert leaving.fabric.detaches == [("machine-0", "d1")]


def test_manager_that_fails_leaves_the_device_for_later(leaving: Bench) -> None:
    leaving.fabric.detach_error = Unavailable("the CDI Manager does not answer")
    detach(leaving)
    assert leaving.status()["state"] == "Detaching"
    assert leaving.status()["cdi_device_id"] == "d1"
    assert leaving.told("DetachFailed") == ["the CDI Manager does not answer"]
    leaving.fabric.detach_error = None
    detach(leaving)
    assert leaving.status()["state"] == "Deleting"


def test_detach_whose_end_could_not_be_written_is_done_again(leaving: Bench) -> None:
    leaving.api.fail("merge_patch", COMPOSABLE_RESOURCES, unreachable(), times=1)
    detach(leaving)
    assert leaving.status()["cdi_device_id"] == "d1"
    detach(leaving)
    assert leaving.status()["state"] == "Deleting"


def test_resource_that_is_gone_is_not_detached(bench: Bench) -> None:
    detach(bench)
    assert bench.fabric.detaches == []


def test_device_is_tainted_before_the_last_look(leaving: Bench) -> None:
    rules = "/apis/resource.k8s.io/v1beta2"
    leaving.api.paths = {"/apis/resource.k8s.io/v1": NotFound(404, "NotFound", "no"),
                         rules: {"resources": [{"name": "devicetaintrules"}]}}
    detach(leaving)
    verbs = [(c.verb, c.plural) for c in leaving.api.calls]
    assert verbs.index(("create", "devicetaintrules")) < verbs.index(("list", "resourceclaims"))
    body = next(c.body for c in leaving.api.calls if c.plural == "devicetaintrules")
    assert body["metadata"]["name"] == "gpu-a-taint"
    assert body["spec"]["deviceSelector"] == {"driver": "gpu.nvidia.com", "pool": "node-0", "device": "gpu-0"}
    assert body["spec"]["taint"]["effect"] == "NoSchedule"


@pytest.mark.parametrize("refused", [False, True], ids=["not served", "not allowed"])
def test_device_that_cannot_be_tainted_stays_until_no_slice_shows_it(leaving: Bench, refused: bool) -> None:
    """The node has let it go, and the scheduler may still give it to a claim."""
    if refused:
        leaving.api.fail("create", ApiResource("resource.k8s.io/v1", "devicetaintrules", "DeviceTaintRule", False),
                         Forbidden(403, "Forbidden", "no"))
    else:
        leaving.api.paths = {}
    detach(leaving)
    assert leaving.fabric.detaches == []
    assert leaving.status()["error"].startswith("not detached: a ResourceSlice of the node still shows the device")
    leaving.put(objects.local_slice())
    detach(leaving)
    assert leaving.fabric.detaches


def user(check: ClaimCheck) -> str:
    """Who uses the device of the node."""
    return check.claimed("gpu-a", "node-0")


def test_device_of_an_object_that_cannot_be_read_stays(leaving: Bench) -> None:
    check = ClaimCheck(leaving.api.client, leaving.state, leaving.writer.resources.taints)
    raw = leaving.api.one(COMPOSABLE_RESOURCES, "gpu-a")
    leaving.put({**raw, "spec": {name: value for name, value in raw["spec"].items() if name != "model"}})
    assert user(check) == "its ComposableResource cannot be read"
    leaving.drop(raw)
    assert user(check) == ""


def test_while_a_slice_cannot_be_read_devices_stay(leaving: Bench) -> None:
    check = ClaimCheck(leaving.api.client, leaving.state, leaving.writer.resources.taints)
    raw = objects.local_slice("GPU-strange", node="node-7")
    leaving.put({**raw, "spec": {"driver": "other", "nodeName": "node-7"}})
    name = raw["metadata"]["name"]
    assert user(check) == f"ResourceSlice {name} cannot be read, and it may show the device"
    leaving.put(raw)
    assert user(check) == ""


def test_looks_that_come_together_share_one_read(leaving: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks before a read begins may have its answer; who asks after it began may not."""
    moment = [1.0]
    monkeypatch.setattr(f"{ClaimCheck.__module__}.time.monotonic", lambda: moment[0])
    check = ClaimCheck(leaving.api.client, leaving.state, leaving.writer.resources.taints)
    reads = []
    for now in (1.0, 2.0, 2.0, 2.0, 3.0):
        moment[0] = now
        user(check)
        reads.append(len([c for c in leaving.api.calls if c.verb == "list"]))
    assert reads == [1, 2, 2, 2, 3]


def test_later_look_reads_anew(leaving: Bench) -> None:
    check = ClaimCheck(leaving.api.client, leaving.state, leaving.writer.resources.taints)
    assert user(check) == ""
    leaving.api.put(CLAIMS, objects.claim("train", objects.local_result("gpu-0")))
    assert user(check) == "claim default/train uses the device"


def test_failed_look_raises(leaving: Bench) -> None:
    leaving.api.fail("list", CLAIMS, Forbidden(403, "Forbidden", "no"))
    with pytest.raises(Forbidden):
        user(ClaimCheck(leaving.api.client, leaving.state, leaving.writer.resources.taints))


def test_failed_look_is_no_answer_for_those_who_asked_with_it(leaving: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{ClaimCheck.__module__}.time.monotonic", lambda: 100.0)
    leaving.api.put(CLAIMS, objects.claim("train", objects.local_result("gpu-0")))
    leaving.api.fail("list", CLAIMS, unreachable(), times=1)
    check = ClaimCheck(leaving.api.client, leaving.state, leaving.writer.resources.taints)
    with pytest.raises(Exception, match="does not answer"):
        user(check)
    assert user(check) == "claim default/train uses the device"
