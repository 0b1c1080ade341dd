# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that ask for devices by an extended resource (KEP-5004): what the scheduler will ask for, and where.

Counted as ``createRequestsAndMappings`` of kube-scheduler 1.36 does (``extendeddynamicresources.go``).
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.filters.dynamic_resources import (
    extended_resources as module,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import (
    GatedPod,
    SchedulingPlan,
    Stock,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    CLASS,
    PRODUCT,
    WAIT,
    claim,
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
GPU, IMPLICIT = "nvidia.com/gpu", f"deviceclass.resource.kubernetes.io/{CLASS}"
CLASSES = {CLASS: device_class(PRODUCT.format(A100), extendedResourceName=GPU)}


def container(count: int = 1, resource: str = GPU, **more: t.Any) -> Json:
    return {"name": "c", "resources": {"requests": {"cpu": "1", **({resource: str(count)} if count else {})}}, **more}


def asking(name: str, *containers: Json, starting: tuple[Json, ...] = (), claims: t.Any = None,
           **more: t.Any) -> GatedPod:
    """A held pod without claims of its own."""
    return gated(name, claims=claims or {}, containers=list(containers), initContainers=list(starting), **more)


def planned(*parts: t.Any, **more: t.Any) -> SchedulingPlan:
    return plan(*parts, **{"free": 9, "classes": CLASSES, **more})


@pytest.mark.parametrize("resource", [GPU, IMPLICIT])
def test_pod_gets_a_node_and_devices(resource: str) -> None:
    found = placement(planned(node("n"), asking("p", container(2, resource))), "p")
    assert (found.node, found.needs) == ("n", {"default/pod-p": {A100: 2}})


SIDECAR = {"restartPolicy": "Always"}
COUNTS = [
    ([container(1), container(2)], [], 3),
    ([container(1)], [container(1)], 1),
    ([container(1)], [container(3)], 3),
    ([container(1)], [container(2), container(4), container(3)], 4),
    ([container(1)], [container(2, **SIDECAR)], 3),
    # devices of what starts later are there for an init container until then
    ([container(1)], [container(3), container(2, **SIDECAR)], 3),
    # one that started before is in use
    ([container(1)], [container(2, **SIDECAR), container(3)], 5),
    ([container(0)], [container(2)], 2),
]


@pytest.mark.parametrize(("containers", "starting", "devices"), COUNTS)
def test_devices_of_several_containers(containers: list[Json], starting: list[Json], devices: int) -> None:
    found = placement(planned(node("n"), asking("p", *containers, starting=tuple(starting))), "p")
    assert found.needs == {"default/pod-p": {A100: devices}}


def test_claim_and_extended_resource_of_one_pod_count_both() -> None:
    found = placement(planned(node("n"), asking("p", container(2), claims={"gpu": claim("own", exactly())})), "p")
    assert found.needs == {"uid-own": {A100: 1}, "default/pod-p": {A100: 2}}


def test_node_whose_device_plugin_offers_it_is_not_chosen() -> None:
    """The scheduler takes the plugin's there, and a device would come in vain."""
    plugged = node("plugged", allocatable={GPU: "4"})
    assert nodes_by_pod(planned(plugged, node("bare"), asking("p", container()))) == {"p": "bare"}
    said = release(planned(plugged, asking("p", container())), "p")
    assert said.reason == f"1 x {A100}: 0/1 nodes: 1 served {GPU} by a device plugin"
    assert said.unschedulable


@pytest.mark.parametrize("offered", [{}, {GPU: "0"}], ids=["not registered", "plugin without devices"])
def test_node_that_offers_none_needs_no_room_for_it(offered: dict[str, str]) -> None:
    assert nodes_by_pod(planned(node("n", allocatable=offered), asking("p", container()))) == {"p": "n"}


def test_resource_that_no_class_serves_is_an_ordinary_one() -> None:
    pod = asking("p", container(1, "example.com/fpga"))
    assert release(planned(node("n"), pod), "p").reason == (
        "the pod has no claim, and no DeviceClass serves a resource that it requests")
    beside = gated("q", containers=[container(1, "example.com/fpga")])
    assert "Insufficient example.com/fpga" in release(planned(node("n"), beside), "q").reason
    assert nodes_by_pod(planned(node("n", allocatable={"example.com/fpga": "1"}), beside)) == {"q": "n"}


@pytest.mark.parametrize("count", ["0", "1" * 70, "much"])
def test_amount_that_is_none_or_cannot_be_read_lets_the_pod_go(count: str) -> None:
    pod = asking("p", {"name": "c", "resources": {"requests": {GPU: count}}})
    assert not release(planned(node("n"), pod, asking("other", container())), "p").unschedulable
    assert nodes_by_pod(planned(node("n"), pod, asking("other", container()))) == {"other": "n"}


def test_more_than_a_claim_may_have_lets_the_pod_go() -> None:
    assert "more than 32 devices" in release(planned(node("n"), asking("p", container(33)), free=99), "p").reason


def test_pod_that_waits_says_so_by_the_claim_to_come() -> None:
    used = node("n", stock={A100: Stock(bound=1)})
    found = planned(used, asking("p", container()), free=0, rules=WAIT)
    assert wait_reason(found, "p").claim == "default/p-extended-resources"
    pending = planned(node("n"), asking("p", container()), unseen="no poll of the CDI Manager has succeeded yet")
    assert (wait_reason(pending, "p").claim, wait_reason(pending, "p").waits_for) == (
        "default/p-extended-resources", "no poll of the CDI Manager has succeeded yet")


def named(name: str, created: str, resource: str | None = GPU) -> Json:
    raw = device_class(name=name, **({"extendedResourceName": resource} if resource else {}))
    raw["metadata"]["creationTimestamp"] = created
    return raw


OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


@pytest.mark.parametrize(("classes", "chosen"), [
    ([named("a", OLD), named("b", NEW)], "b"),
    ([named("a", NEW), named("b", OLD)], "a"),
    ([named("b", OLD), named("a", OLD)], "a"),
    ([named("a", OLD, None)], None),
])
def test_of_several_classes_the_newest_serves_it(classes: list[Json], chosen: str | None) -> None:
    found = module.classes_by_resource({raw["metadata"]["name"]: raw for raw in classes})
    assert found.get(GPU) == chosen
    for raw in classes:
        name = raw["metadata"]["name"]
        assert found[f"deviceclass.resource.kubernetes.io/{name}"] == name
