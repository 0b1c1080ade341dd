# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request is served whole or not at all, keeps its devices for its pods, and gives them back."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    RESOURCE_CLAIM_TEMPLATES,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods, provisioning_requests
from ansible_collections.composable.infra.plugins.module_utils.planning.fairness import Shares
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.plan import plan_placements
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.planner import plan_gated_pods
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.provisioning import provisioning_support as support
from ansible_collections.composable.infra.tests.unit.reconcile.provisioning.provisioning_support import KEY


@pytest.fixture
def served(held: Bench) -> Bench:
    """A bench that serves ProvisioningRequests."""
    support.serve_requests(held)
    return held


def test_devices_of_all_pods_are_attached_before_it_is_provisioned(served: Bench) -> None:
    support.ask(served, count=2, devices=2)
    assert support.true(served) == {"Accepted"}
    assert support.booked(served) == ["node-0", "node-0"]
    assert served.fabric.attached == {}
    support.attach(served)
    assert len(served.fabric.attached) == 4
    assert support.true(served) == {"Accepted", "Provisioned"}
    assert support.conditions(served)["Provisioned"][2].startswith("4 devices are attached to node-0 and reserved")


def test_nodes_are_in_the_status_before_a_device_is_requested(served: Bench) -> None:
    served.api.fail("merge_patch", PROVISIONING_REQUESTS, ApiError(500, "InternalError", "etcd is away"))
    support.ask(served)
    served.run(2)
    assert served.fabric.attaches == []
    served.api.heal()
    support.go_on(served)
    served.run(1)
    assert len(served.fabric.attaches) == 1


def test_request_that_does_not_fit_waits_without_a_device(served: Bench) -> None:
    served.fabric.free_count = 3
    served.look()
    support.ask(served, count=2, devices=2)
    served.run(2)
    assert served.fabric.attaches == []
    assert support.booked(served) == []
    status, reason, message = support.conditions(served)["Provisioned"]
    assert (status, reason) == ("False", "WaitingForDevices")
    assert f"had no free {A100}" in message
    served.fabric.free_count = 4
    served.look()
    support.go_on(served)
    support.attach(served)
    assert "Provisioned" in support.true(served)


def test_parameter_limits_the_wait(served: Bench) -> None:
    served.fabric.free_count = 0
    served.look()
    support.ask(served, parameters={"ValidUntilSeconds": "60"})
    assert "Failed" not in support.true(served)
    served.put({**served.api.one(PROVISIONING_REQUESTS, "train", "default"),
                **support.request(created=time.time() - 61, parameters={"ValidUntilSeconds": "60"})})
    support.go_on(served)
    assert support.conditions(served)["Failed"][1] == "NotInTime"


@pytest.mark.parametrize("value", ["", "0", "-1", "1.5", "soon"])
def test_invalid_parameter_is_named(served: Bench, value: str) -> None:
    support.ask(served, parameters={"ValidUntilSeconds": value})
    assert support.conditions(served)["Failed"][2] == (
        f"parameter ValidUntilSeconds is {value!r}, it must be a whole number of seconds, 1 or more")


def test_other_classes_are_not_touched(served: Bench) -> None:
    support.ask(served, provisioningClassName="check-capacity.autoscaling.x-k8s.io")
    assert support.conditions(served) == {}


def test_namespace_that_is_not_gated_is_told(served: Bench) -> None:
    served.put({"apiVersion": "v1", "kind": "Namespace", "metadata": objects.meta("default")})
    support.ask(served)
    assert support.conditions(served)["Failed"][1] == "NamespaceNotGated"
    assert pods.OPT in support.conditions(served)["Failed"][2]


def test_missing_template_may_come_later(served: Bench) -> None:
    served.put(support.request())
    served.reconcile(KEY)
    assert support.conditions(served) == {}
    support.ask(served)
    assert "Accepted" in support.true(served)


def test_template_that_never_comes_fails_it(served: Bench) -> None:
    served.put(support.request(created=time.time() - 31))
    served.reconcile(KEY)
    assert support.conditions(served)["Failed"][1] == "TemplateMissing"


def test_pods_without_devices_need_nothing(served: Bench) -> None:
    served.api.put(POD_TEMPLATES, support.pod_template(resourceClaims=[]))
    served.put(support.request())
    served.reconcile(KEY)
    assert support.conditions(served)["Provisioned"][1] == "NoDevices"


def test_quota_of_the_namespace_counts(served: Bench) -> None:
    served.state.settings = replace(served.settings, shares=Shares({"default": {A100: 1}}))
    support.ask(served, count=2)
    served.run(1)
    assert served.fabric.attaches == []
    assert "quota" in support.conditions(served)["Provisioned"][2] or "may have" in support.conditions(served)[
        "Provisioned"][2]


def test_pods_get_what_was_booked_and_no_other_pod_does(served: Bench) -> None:
    served.fabric.free_count = 1
    served.look()
    support.ask(served)
    support.attach(served)
    gated_pods.ask(served, "other")
    served.reconcile(GatesKey())
    assert gated_pods.reserved(served) == [("train-0-0", "node-0")]
    (device,) = served.state.resources.list()
    served.put(gated_pods.claim("pod-a"), support.consumer())
    served.reconcile(GatesKey())
    assert gated_pods.gate_names(served, "pod-a") == []
    assert gated_pods.kept_for(served, "pod-a") == device["status"]["device_id"]
    served.reconcile(KEY)
    assert support.booked(served) == []
    assert support.true(served) == {"Accepted", "Provisioned"}
    assert len(served.fabric.attaches) == 1


def test_pod_that_is_early_waits_for_its_request(served: Bench) -> None:
    served.fabric.free_count = 1
    served.look()
    support.ask(served)
    served.put(gated_pods.claim("pod-a"), support.consumer())
    served.reconcile(GatesKey())
    assert gated_pods.gate_names(served, "pod-a") == [pods.GATE]
    support.attach(served)
    served.reconcile(GatesKey())
    assert gated_pods.gate_names(served, "pod-a") == []


def test_devices_go_back_when_nobody_comes(served: Bench) -> None:
    support.ask(served)
    support.attach(served)
    support.age(served, 601)
    served.reconcile(KEY)
    assert "BookingExpired" in support.true(served)
    assert gated_pods.reserved(served) == []
    assert served.state.holds.kept_for(provisioning_requests.claim_uid(
        "default", provisioning_requests.pod_uid("uid-of-train", 0, 0), "gpu")) == []


def test_deleted_request_gives_everything_back(served: Bench) -> None:
    support.ask(served, count=2)
    assert len(gated_pods.reserved(served)) == 2
    served.drop(served.api.one(PROVISIONING_REQUESTS, "train", "default"))
    served.reconcile(KEY)
    assert gated_pods.reserved(served) == []


def test_sick_device_revokes_it(served: Bench) -> None:
    support.ask(served)
    support.attach(served)
    (raw,) = (found.as_object() for found in served.state.slices.values("node", "node-0"))
    for device in raw["spec"]["devices"]:
        device["taints"] = [{"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}]
    served.put(raw)
    served.reconcile(KEY)
    assert support.conditions(served)["CapacityRevoked"][1] == "DeviceLost"
    assert "has the taint gpu.nvidia.com/xid" in support.conditions(served)["CapacityRevoked"][2]
    assert gated_pods.reserved(served) == []


def test_cordoned_node_revokes_it(served: Bench) -> None:
    support.ask(served)
    support.attach(served)
    raw = gated_pods.node()
    served.put({**raw, "spec": {**raw["spec"], "unschedulable": True}})
    served.reconcile(KEY)
    assert "node-0" in support.conditions(served)["CapacityRevoked"][2]


def test_pod_without_a_gate_that_takes_the_device_is_its_pod_or_a_loss(served: Bench) -> None:
    support.ask(served)
    support.attach(served)
    (resource,) = served.state.resources.list()
    bound = support.consumer()
    bound["spec"] |= {"schedulingGates": [], "nodeName": "node-0"}
    taken = objects.claim("pod-a", objects.local_result("gpu-0"))
    served.put(taken, bound)
    served.state.note_uses(["node-0"])
    assert resource["metadata"]["name"] in served.state.users("node-0")
    served.reconcile(KEY)
    assert support.true(served) == {"Accepted", "Provisioned"}
    assert support.booked(served) == []


def test_device_taken_by_a_foreign_pod_revokes_it(served: Bench) -> None:
    support.ask(served)
    support.attach(served)
    served.put(objects.claim("thief", objects.local_result("gpu-0")), objects.pod("thief"))
    served.state.note_uses(["node-0"])
    served.reconcile(KEY)
    assert "gone or used by another pod" in support.conditions(served)["CapacityRevoked"][2]


def test_refused_attach_chooses_again_and_fails_in_the_end(served: Bench) -> None:
    support.ask(served)
    for number in range(8):
        (reservation,) = served.state.reservations.all()
        served.gating.ends.give_up(reservation, f"refused {number}")
        support.go_on(served)
    assert support.conditions(served)["Failed"][1:] == (
        "DevicesDidNotCome", "the devices did not arrive on 8 nodes: node node-0: refused 7")
    assert gated_pods.reserved(served) == []


def test_another_process_goes_on_with_what_is_booked(served: Bench) -> None:
    support.ask(served)
    before = served.api.one(PROVISIONING_REQUESTS, "train", "default")
    served.state.reservations.drop(served.state.reservations.all()[0].placement.pod.uid)
    served.build()
    support.serve_requests(served)
    support.go_on(served)
    assert gated_pods.reserved(served) == [("train-0-0", "node-0")]
    assert served.api.one(PROVISIONING_REQUESTS, "train", "default")["status"]["provisioningClassDetails"] == before[
        "status"]["provisioningClassDetails"]
    support.attach(served)
    assert "Provisioned" in support.true(served)
    assert len(served.api.of(COMPOSABLE_RESOURCES)) == 1


def test_a_hundred_pods_have_a_booking_that_fits(served: Bench) -> None:
    seats = tuple(provisioning_requests.Seat(0, n, f"node-{n % 40}", {"gpu": {A100: 2}}) for n in range(256))
    text = provisioning_requests.booking_text(seats)
    assert len(text) < provisioning_requests.LONGEST_DETAIL
    raw = support.request(256)
    raw["status"] = {"provisioningClassDetails": {provisioning_requests.BOOKING: text}}
    assert sorted(provisioning_requests.read(raw).seats, key=lambda each: each.number) == list(seats)


def test_pod_whose_claim_came_late_is_not_planned_as_another_one(served: Bench) -> None:
    """Its claim may arrive after the pods of this pass got what was booked, and before the others are planned."""
    support.ask(served)
    support.attach(served)
    served.put(gated_pods.claim("pod-a"), support.consumer())
    found = plan_gated_pods(served.state, plan_placements, None, served.gating.bookings)
    assert (found.placements, found.releases) == ((), ())
    assert [each.waits_for for each in found.wait_reasons] == ["the devices of its ProvisioningRequest"]


def test_one_place_is_given_to_one_pod(served: Bench) -> None:
    support.ask(served)
    support.attach(served)
    for name in ("pod-a", "pod-b"):
        served.put(gated_pods.claim(name), support.consumer(name))
    served.reconcile(GatesKey())
    assert sum("booked by ProvisioningRequest default/train" in each for each in served.told("NodeChosen")) == 1
    assert len(served.state.holds.kept_for("uid-pod-a")) == 1
    assert served.state.holds.kept_for("uid-pod-b") == []


def test_claim_of_another_shape_gets_no_booked_device(served: Bench) -> None:
    support.ask(served)
    support.attach(served)
    served.put(gated_pods.claim("pod-a", count=2), support.consumer())
    served.reconcile(GatesKey())
    assert ("train-0-0", "node-0") in gated_pods.reserved(served)


def test_template_that_names_a_claim_is_refused(served: Bench) -> None:
    served.api.put(POD_TEMPLATES, support.pod_template(resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}]))
    served.put(support.request())
    served.reconcile(KEY)
    assert support.conditions(served)["Failed"][1:] == (
        "NotSupported", "resourceClaims entry gpu names no ResourceClaimTemplate, so its devices cannot be attached "
                        "before the pods exist")


def test_feature_that_gated_pods_cannot_use_fails_it(served: Bench) -> None:
    served.api.put(RESOURCE_CLAIM_TEMPLATES, support.claim_template())
    served.api.put(POD_TEMPLATES, support.pod_template(schedulerName="mine"))
    served.put(support.request())
    support.go_on(served)
    assert "the pod's scheduler is mine" in support.conditions(served)["Failed"][2]


def test_priority_of_a_template_does_not_count(served: Bench) -> None:
    """Everyone who creates PodTemplates could write it."""
    served.api.put(RESOURCE_CLAIM_TEMPLATES, support.claim_template())
    served.api.put(POD_TEMPLATES, support.pod_template(
        priority=2_000_000_000, priorityClassName="system-node-critical"))
    served.put(support.request())
    served.reconcile(KEY)
    (expected,) = served.gating.bookings.waiting()
    assert expected.raw["spec"]["priority"] == 0
    assert "priorityClassName" not in expected.raw["spec"]


def test_too_many_pods_are_refused(served: Bench) -> None:
    support.ask(served, count=257)
    assert support.conditions(served)["Failed"][2] == "the request has 257 pods, but max_group_size is 256"


def test_lost_plan_of_the_pool_is_planned_again(served: Bench) -> None:
    """The nodes were chosen, and the pool could not be written."""
    served.api.fail("create", SLICES, ApiError(500, "InternalError", "etcd is away"))
    served.api.fail("replace", SLICES, ApiError(500, "InternalError", "etcd is away"))
    support.ask(served)
    assert gated_pods.reserved(served) == []
    served.api.heal()
    support.go_on(served, rounds=3)
    assert gated_pods.reserved(served) == [("train-0-0", "node-0")]


def test_pod_that_may_not_run_at_its_devices_frees_one_place_only(served: Bench) -> None:
    """Kueue's topology-aware scheduling may choose another node. The other places wait for their pods."""
    support.ask(served, 2)
    support.attach(served)
    elsewhere = support.consumer()
    elsewhere["spec"]["nodeSelector"] = {"zone": "another"}
    served.put(elsewhere)
    support.go_on(served)
    assert support.booked(served) == ["node-0", "node-0"], "its claim does not exist yet"
    served.put(gated_pods.claim("pod-a"))
    for _twice in range(2):
        support.go_on(served)
        assert support.booked(served) == ["node-0"]
    assert "node-0 has the devices of its ProvisioningRequest, but it " in served.told("NodeGivenUp")[0]
    assert support.true(served) == {"Accepted", "Provisioned"}
    served.put(gated_pods.claim("pod-b"), support.consumer("pod-b"))
    support.go_on(served)
    assert ("pod-b", "node-0") in gated_pods.reserved(served)


def test_extended_resources_of_a_template_are_attached_and_handed_over(served: Bench) -> None:
    """The pods name no claim. kube-scheduler makes one for each of them (KEP-5004)."""
    limits = {"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "2"}}
    served.put({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": objects.meta(DRIVER),
                "spec": {"extendedResourceName": "example.com/gpu", "selectors": [
                    {"cel": {"expression": f'device.driver == "{DRIVER}"'}},
                    {"cel": {"expression": f'device.attributes["{DRIVER}"].productName == "NVIDIA {A100}"'}}]}})
    containers = [{"name": "c", "resources": limits}]
    served.api.put(POD_TEMPLATES, support.pod_template(containers=containers, resourceClaims=None))
    served.put(support.request())
    support.go_on(served)
    support.attach(served)
    assert support.true(served) == {"Accepted", "Provisioned"}
    assert len(served.fabric.attached) == 2
    pod = support.consumer()
    pod["spec"] |= {"containers": containers, "resourceClaims": None}
    served.put({**pod, "status": {}})
    support.go_on(served)
    assert gated_pods.reserved(served) == [("pod-a", "node-0")]
    assert gated_pods.gate_names(served, "pod-a") == []
    assert len(served.fabric.attached) == 2
