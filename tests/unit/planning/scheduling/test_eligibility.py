# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods are supported; every other pod is let go at once, with the reason."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import GATE, GatedPod
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER, H100, NOW, T4
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    CLASS,
    PRODUCT,
    Rules,
    assumed,
    claim,
    device,
    device_class,
    exactly,
    gated,
    node,
    nodes_by_pod,
    placement,
    plan,
    release,
    wait_reason,
)

Json = dict[str, t.Any]
UUID = f'device.attributes["{DRIVER}"].uuid == "GPU-1"'
SLOT = f'device.attributes["{DRIVER}"].slot == "x"'


IMPLICIT = "deviceclass.resource.kubernetes.io/extended"


def volume(**kind: t.Any) -> list[Json]:
    return [{"name": "v", **kind}]


LET_GO = [
    ({"schedulerName": "other"}, "the pod's scheduler is other, not default-scheduler"),
    ({"nodeName": "n"}, "the pod is bound to node n"),
    ({"volumes": volume(persistentVolumeClaim={"claimName": "c"})},
     "volume v has the unsupported kind persistentVolumeClaim"),
    ({"volumes": volume(ephemeral={})}, "volume v has the unsupported kind ephemeral"),
    ({"volumes": volume(csi={"driver": "d"})}, "volume v has the unsupported kind csi"),
    ({"volumes": volume(emptyDir={}) + volume(rbd={})}, "volume v has the unsupported kind rbd"),
    ({"schedulingGroup": {"podGroupName": "g"}},
     "the pod belongs to a PodGroup of the scheduler's own gang scheduling"),
    ({"workloadRef": {"name": "g"}}, "the pod belongs to a PodGroup of the scheduler's own gang scheduling"),
    ({"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]},
     "tolerations that compare numbers are not supported"),
    ({"hostNetwork": True, "hostUsers": False}, "host network together with a user namespace is not supported"),
    ({"containers": [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
     "the restart rule RestartAllContainers is not supported"),
    ({"initContainers": [{"name": "c", "volumeMounts": [{"name": "v", "bindMountOptions": ["noexec"]}]}]},
     "bindMountOptions are not supported"),
    ({"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]},
     "claim p-extended-resources, request container-0-example.com/gpu: the fabric does not serve DeviceClass extended"),
    ({"initContainers": [{"name": "c", "resources": {"requests": {IMPLICIT: "1"}}}]},
     f"claim p-extended-resources, request container-0-{IMPLICIT}: the fabric does not serve DeviceClass extended"),
    ({"containers": [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]}, "'much' is not a quantity"),
    ({"resourceClaims": [{"name": "gpu", "podGroupResourceClaim": "x"}]},
     "resource claim gpu has the unsupported source podGroupResourceClaim"),
    ({"resourceClaims": []}, "the pod has no claim, and no DeviceClass serves a resource that it requests"),
]
SUPPORTED: list[Json] = [
    {"schedulerName": "default-scheduler"}, {"volumes": volume(emptyDir={})}, {"volumes": volume(configMap={})},
    {"volumes": volume(secret={})}, {"volumes": volume(projected={})}, {"volumes": volume(downwardAPI={})},
    {"volumes": volume(hostPath={"path": "/"})}, {"volumes": volume(image={})}, {"hostNetwork": True},
    {"hostUsers": False}, {"tolerations": [{"operator": "Exists"}]}, {"priority": 5}]
CLASSES = {CLASS: device_class(), "extended": device_class(name="extended", extendedResourceName="example.com/gpu")}


@pytest.mark.parametrize(("spec", "reason"), LET_GO)
def test_pod_is_let_go(spec: Json, reason: str) -> None:
    found = plan(node("n"), gated("p", **spec), free=9, classes=CLASSES)
    assert (release(found, "p").reason, release(found, "p").unschedulable) == (reason, False)
    assert not found.placements
    assert not found.wait_reasons


@pytest.mark.parametrize("spec", SUPPORTED)
def test_pod_is_supported(spec: Json) -> None:
    assert nodes_by_pod(plan(node("n"), gated("p", **spec), free=9, classes=CLASSES)) == {"p": "n"}


def asking(*asks: Json | list[Json], **more: t.Any) -> GatedPod:
    return gated("p", claims={"gpu": claim("c", *asks, **more)})


ANY_CLAIM = "claim c, request r0: "
CLAIMS = [
    (asking(exactly(adminAccess=True)), ANY_CLAIM + "adminAccess is not supported"),
    (asking(exactly(allocationMode="All")), ANY_CLAIM + "allocationMode All is not supported"),
    (asking(exactly(capacity={"requests": {"memory": "1Gi"}})), ANY_CLAIM + "a request for capacity is not supported"),
    (asking(exactly(derivedAttributes=[{"name": "resource.kubernetes.io/pcieRoot", "expression": "'one'"}])),
     ANY_CLAIM + "derivedAttributes are not supported"),
    (asking(exactly(deviceClassName="nic")), ANY_CLAIM + "the fabric does not serve DeviceClass nic"),
    (asking(exactly(deviceClassName="gone")), ANY_CLAIM + "there is no DeviceClass gone"),
    (asking(), "its claims request no device"),
    (asking(exactly(A100, 33)), "claim c requests more than 32 devices"),
    (asking([exactly(A100, 2), exactly(T4, 31)], exactly(A100, 2)), "claim c requests more than 32 devices"),
    (asking(*[exactly(None)] * 6), "its claims can be satisfied in more than 1024 ways"),
    (asking(exactly("B300")), ANY_CLAIM + "no model of device_info satisfies it"),
    (asking(exactly(A100, 1, UUID)), ANY_CLAIM + f"it is unknown which model satisfies {UUID!r}"),
    (asking(exactly(A100, 1, SLOT)), ANY_CLAIM + f"it is unknown which model satisfies {SLOT!r}"),
    (asking(exactly(A100, 1, "cel.bind(a, b, c)")), "is not supported"),
    (asking([exactly(deviceClassName="nic"), exactly()]), ANY_CLAIM + "the fabric does not serve DeviceClass nic"),
    (asking([exactly("B300"), exactly(adminAccess=True)]), ANY_CLAIM + "adminAccess is not supported"),
    (asking(exactly(), exactly(adminAccess=True)), "claim c, request r1: adminAccess is not supported"),
    (asking(exactly(), constraints=[{"distinctAttribute": "a.com/b"}]),
     "claim c: constraints need matchAttribute and requests without alternatives"),
    (asking([exactly(), exactly()], constraints=[{"matchAttribute": f"{DRIVER}/productName"}]),
     "claim c: constraints need matchAttribute and requests without alternatives"),
    (asking(exactly(), constraints=[{"matchAttribute": f"{DRIVER}/productName", "requests": ["r0/s0"]}]),
     "claim c: constraints need matchAttribute and requests without alternatives"),
    (asking(exactly(A100), exactly(T4), constraints=[{"matchAttribute": f"{DRIVER}/productName"}]),
     f"claim c: it is unknown which devices share {DRIVER}/productName"),
]


@pytest.mark.parametrize(("pod", "reason"), CLAIMS)
def test_claim_that_is_not_supported(pod: GatedPod, reason: str) -> None:
    found = plan(node("n"), pod, free=9, rules=Rules(device_classes=(CLASS, "gone")))
    assert reason in release(found, "p").reason
    assert not release(found, "p").unschedulable


@pytest.mark.parametrize(("status", "reason"), [
    ({"allocation": {"devices": {"results": []}}}, "claim c is allocated already"),
    ({"reservedFor": [{"resource": "pods", "name": "x"}]}, "claim c is allocated already")])
def test_claim_that_somebody_has(status: Json, reason: str) -> None:
    found = plan(node("n"), gated("p", claims={"gpu": {**claim("c", exactly()), "status": status}}), free=9)
    assert release(found, "p").reason == reason


def test_claim_that_is_being_deleted() -> None:
    gone = claim("c", exactly())
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert release(plan(node("n"), gated("p", claims={"gpu": gone}), free=9), "p").reason == "claim c is being deleted"


def test_claim_of_two_pods() -> None:
    both = claim("c", exactly())
    found = plan(node("n"), gated("p", claims={"gpu": both}), gated("q", claims={"gpu": both}), gated("r"), free=9)
    assert {r.pod.name: r.reason for r in found.releases} == dict.fromkeys("pq", "claim c is shared with another pod")
    assert nodes_by_pod(found) == {"r": "n"}


def test_claim_of_a_pod_that_is_placed() -> None:
    both = claim("c", exactly())
    early = gated("q", claims={"gpu": both})
    found = plan(node("n"), gated("p", claims={"gpu": both}), early, assumed(early, "n", {A100: 1}), free=9)
    assert release(found, "p").reason == "claim c is shared with another pod"


def test_claim_that_two_containers_of_a_pod_share_counts_once() -> None:
    both = claim("c", exactly())
    found = plan(node("n"), gated("p", claims={"a": both, "b": both}), free=9)
    assert placement(found, "p").needs == {"uid-c": {A100: 1}}


def test_claim_that_is_not_there_yet_is_waited_for() -> None:
    found = plan(node("n"), gated("p", claims={"gpu": None}, age=5), free=9)
    assert wait_reason(found, "p").waits_for == "its claim gpu does not exist yet"
    assert wait_reason(found, "p").claim == "default/p-gpu"
    assert found.wake_at == NOW + 25
    assert not found.releases


def test_claim_that_never_comes() -> None:
    found = plan(node("n"), gated("p", claims={"gpu": None}, age=30), free=9)
    assert release(found, "p").reason == "one of its claims was not created within 30 s"
    assert found.wake_at is None


def test_foreign_gate_is_waited_for_and_nothing_is_attached_meanwhile() -> None:
    gates = [{"name": GATE}, {"name": "kueue.x-k8s.io/admission"}]
    found = plan(node("n"), gated("p", schedulingGates=gates), free=9)
    assert wait_reason(found, "p").waits_for == (
        "the pod still has the scheduling gate kueue.x-k8s.io/admission of another controller")
    assert not found.placements
    assert not found.releases


def test_several_claims_and_requests_are_all_served() -> None:
    pod = gated("p", claims={"a": claim("a", exactly(A100, 2), exactly(T4)), "b": claim("b", exactly(T4, 3))})
    found = plan(node("n"), pod, free={(A100, 1): 2, (T4, 1): 4})
    assert placement(found, "p").needs == {"uid-a": {A100: 2, T4: 1}, "uid-b": {T4: 3}}


def test_class_selectors_count_too() -> None:
    classes = {CLASS: device_class(PRODUCT.format(T4))}
    assert placement(plan(node("n"), gated("p", exactly(None)), free={(T4, 1): 1, (A100, 1): 1}, classes=classes),
                     "p").needs == {"uid-p-gpu": {T4: 1}}
    assert release(plan(node("n"), gated("p"), free=1, classes=classes), "p").reason.endswith("satisfies it")


def test_class_whose_selector_is_not_read() -> None:
    found = plan(node("n"), gated("p"), free=1, classes={CLASS: device_class("a + b == c")})
    assert "is not supported" in release(found, "p").reason


def test_devices_that_were_seen_say_what_models_have() -> None:
    ask = exactly(A100, 1, SLOT)
    samples: dict[str, tuple[Json, ...]] = {A100: (device(0, **slots("x")), device(1, **slots("x")))}
    assert nodes_by_pod(plan(node("n"), gated("p", ask), free=1, samples=samples)) == {"p": "n"}
    samples = {A100: (device(0, **slots("x")), device(1, **slots("y")))}
    assert "it is unknown" in release(plan(node("n"), gated("p", ask), free=1, samples=samples), "p").reason
    samples = {A100: (device(0, **slots("z")),), T4: (device(0, T4),), H100: (device(0, H100),)}
    assert "no model" in release(plan(node("n"), gated("p", ask), free=1, samples=samples), "p").reason


def slots(value: str) -> Json:
    """Attributes of an A100 with one more."""
    return {"attributes": {"productName": {"string": f"NVIDIA {A100}"}, "slot": {"string": value}}}


def test_constraint_that_holds_for_every_device_of_the_model() -> None:
    pod = asking(exactly(A100, 2), exactly(A100), constraints=[{"matchAttribute": f"{DRIVER}/productName"}])
    assert placement(plan(node("n"), pod, free=3), "p").needs == {"uid-c": {A100: 3}}
