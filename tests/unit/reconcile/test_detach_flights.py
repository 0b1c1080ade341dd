# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detaching: nothing leaves that a claim holds or a process has open, and what cannot be proven stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.resource import CLAIMS, RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.reconcile.claimcheck import ClaimCheck
from ansible_collections.composable.infra.plugins.module_utils.scaling.actions import Detach
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import unreachable
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

DETACH = Detach("node-0", "no longer wanted", "gpu-a", "machine-0", "d1")
FORCED = Detach("node-0", "no longer wanted", "gpu-a", "machine-0", "d1", force=True)


@pytest.fixture
def leaving(bench: Bench) -> Bench:
    """A deleted ComposableResource whose device is attached, visible and idle."""
    bench.fabric.attached["d1"] = device("d1")
    bench.put(objects.local_slice("GPU-d1"),
              objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, deleted=True, state="Online"))
    return bench


def detach(bench: Bench, action: Detach = DETACH) -> None:
    """Detach, and wait for the end of it."""
    bench.flights.detach(action)
    bench.idle()


def open_device(root: Path, uuid: str = "GPU-d1") -> None:
    """A process on the node has the device open."""
    gpu = root / "proc/driver/nvidia/gpus/0000:10:00.0"
    gpu.mkdir(parents=True)
    (gpu / "information").write_text(f"GPU UUID: \t {uuid}\nDevice Minor: \t 3\n", encoding="utf-8")
    (root / "proc/1/fd/5").symlink_to("/dev/nvidia3")
    (root / "proc/1/comm").write_text("trainer\n", encoding="utf-8")


def test_idle_device_is_detached(leaving: Bench) -> None:
    detach(leaving)
    assert leaving.fabric.detaches == [("machine-0", "d1")]
    assert leaving.status() == {"state": "Deleting", "error": "", "device_id": "GPU-d1", "cdi_device_id": ""}
    assert leaving.told("Detached") == ["device d1 returned to the pool"]
    leaving.wait(lambda: leaving.landed == [("node-0", "A100 40G")], "the passes are told")


def test_device_that_a_claim_holds_stays(leaving: Bench) -> None:
    leaving.put(objects.claim("train", objects.local_result("gpu-0")))
    detach(leaving)
    assert leaving.fabric.detaches == []
    assert leaving.status()["state"] == "Detaching"
    assert leaving.status()["error"] == "not detached: claim default/train uses the device"
    assert leaving.told("DetachRefused") == ["claim default/train uses the device"]


def test_claim_is_looked_for_at_the_api_server_and_not_in_what_was_seen(leaving: Bench) -> None:
    leaving.api.put(CLAIMS, objects.claim("train", objects.local_result("gpu-0")))
    detach(leaving)
    assert leaving.fabric.detaches == []


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


def test_open_device_stays(leaving: Bench, node_root: Path) -> None:
    open_device(node_root)
    detach(leaving)
    assert leaving.fabric.detaches == []
    assert leaving.status()["error"] == "not detached: open on node node-0 by pid 1 (trainer)"


def test_other_open_device_is_no_obstacle(leaving: Bench, node_root: Path) -> None:
    open_device(node_root, "GPU-other")
    detach(leaving)
    assert leaving.fabric.detaches


def test_device_stays_when_the_node_cannot_be_read(leaving: Bench) -> None:
    leaving.flights.proof.node_root = "/does-not-exist/{node}"
    detach(leaving)
    assert leaving.fabric.detaches == []
    assert leaving.status()["error"].startswith("not detached: cannot prove it idle on node node-0: ")


def test_device_stays_when_nobody_can_look_at_the_node(leaving: Bench) -> None:
    leaving.flights.proof.node_root = ""
    detach(leaving)
    assert leaving.fabric.detaches == []
    assert "node_root is not configured" in leaving.status()["error"]
    assert "force_detach" in leaving.status()["error"]


def test_unreadable_node_is_told(leaving: Bench, node_root: Path) -> None:
    (node_root / "proc/driver/nvidia/gpus/0000:10:00.0/information").mkdir(parents=True)
    detach(leaving)
    assert leaving.fabric.detaches == []
    assert leaving.told("DetachRefused") + leaving.told("Failed")


def test_device_whose_serial_is_not_known_stays(leaving: Bench) -> None:
    leaving.put(objects.resource("gpu-a", device="d1", asked=900, deleted=True))
    detach(leaving)
    assert leaving.fabric.detaches == []


def test_device_of_a_claim_stays_while_the_nodes_slice_is_away(leaving: Bench) -> None:
    """The vendor's plugin is being upgraded: the kubelet removes its slices, the pod keeps its device."""
    leaving.put(objects.claim("train", objects.local_result("gpu-0")))
    leaving.passes.run(("node", "node-0"))
    leaving.passes.run(("tidy", "node-0"))
    leaving.drop(objects.local_slice("GPU-d1"))
    detach(leaving)
    assert leaving.fabric.detaches == []


def test_force_asks_nobody(leaving: Bench, node_root: Path) -> None:
    open_device(node_root)
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
    leaving.api.fail("merge_patch", RESOURCES, unreachable(), times=1)
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


def test_no_taint_where_none_is_served(leaving: Bench) -> None:
    detach(leaving)
    assert leaving.fabric.detaches
    assert not [c for c in leaving.api.calls if c.plural == "devicetaintrules"]


def user(check: ClaimCheck) -> str | None:
    """Who uses the device of the node."""
    return check.user("node-0", "GPU-d1")


def test_looks_that_come_together_share_one_read(leaving: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks before a read begins may have its answer; who asks after it began may not."""
    moment = [1.0]
    monkeypatch.setattr(f"{ClaimCheck.__module__}.time.monotonic", lambda: moment[0])
    check = ClaimCheck(leaving.api.client, leaving.world)
    reads = []
    for now in (1.0, 2.0, 2.0, 2.0, 3.0):
        moment[0] = now
        user(check)
        reads.append(len([c for c in leaving.api.calls if c.verb == "list"]))
    assert reads == [1, 2, 2, 2, 3]


def test_later_look_reads_anew(leaving: Bench) -> None:
    check = ClaimCheck(leaving.api.client, leaving.world)
    assert user(check) is None
    leaving.api.put(CLAIMS, objects.claim("train", objects.local_result("gpu-0")))
    assert user(check) == "default/train"


def test_failed_look_raises(leaving: Bench) -> None:
    leaving.api.fail("list", CLAIMS, Forbidden(403, "Forbidden", "no"))
    with pytest.raises(Forbidden):
        user(ClaimCheck(leaving.api.client, leaving.world))


def test_failed_look_is_no_answer_for_those_who_asked_with_it(leaving: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{ClaimCheck.__module__}.time.monotonic", lambda: 100.0)
    leaving.api.put(CLAIMS, objects.claim("train", objects.local_result("gpu-0")))
    leaving.api.fail("list", CLAIMS, unreachable(), times=1)
    check = ClaimCheck(leaving.api.client, leaving.world)
    with pytest.raises(Exception, match="does not answer"):
        user(check)
    assert user(check) == "default/train"
