# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scheduler's own gang scheduling (KEP-4671, off by default) with devices of the fabric.

Held pods are let go, and the scheduler gives the PodGroup devices of the pool for all of its pods, or for none.
"""

from __future__ import annotations

import os
import typing as t
from collections.abc import Iterator
from functools import partial

import pytest

from ansible_collections.composable.infra.lab.binaries.releases import DEFAULT_SERIES, GANG_API
from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, pod_body
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, PODS, ApiResource
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, pods
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess, StageFactory
from ansible_collections.composable.infra.tests.e2e.support.support import (
    all_free,
    changes_asked,
    delete_all,
    holds_new_pods,
    mark,
    returned,
    wait_for,
)

pytestmark = pytest.mark.e2e
Json = dict[str, t.Any]
SERIES = os.environ.get("LAB_KUBERNETES", DEFAULT_SERIES)
KUBERNETES = SERIES if SERIES in GANG_API else DEFAULT_SERIES
TEMPLATES = ApiResource("resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True)
POD_GROUPS = ApiResource(GANG_API[KUBERNETES], "podgroups", "PodGroup", namespaced=True)
GATED, DIRECT = "gated", "direct"


@pytest.fixture(scope="module", params=[GATED, DIRECT])
def stage(request: pytest.FixtureRequest, stage_factory: StageFactory) -> Stage:
    """Two devices, of which each gang wants two."""
    return stage_factory(nodes=2, devices={A100: 2}, handover=request.param, gangs=True, kubernetes=KUBERNETES)


@pytest.fixture
def ready(stage: Stage, open_process: OpenProcess) -> Iterator[Stage]:
    open_process(front_doors.controller, stage)
    wait_for("all devices are in the pool", lambda: all_free(stage))
    if stage.gated:
        wait_for("new pods are held", lambda: holds_new_pods(stage))
    yield stage
    # A PodGroup goes after its pods, and its claims go with it.
    for kind in (PODS, POD_GROUPS):
        for item in stage.client.list(kind, "default").items:
            stage.client.delete(kind, item["metadata"]["name"], namespace="default")
        wait_for(f"no {kind.plural} are left", partial(none_left, stage, kind))
    delete_all(stage)
    wait_for("all devices are back", lambda: returned(stage))


def none_left(stage: Stage, kind: ApiResource) -> bool:
    return not stage.client.list(kind, "default").items


def pod_group(stage: Stage, name: str, size: int, **spec: t.Any) -> None:
    stage.client.create(POD_GROUPS, {
        "apiVersion": GANG_API[KUBERNETES], "kind": "PodGroup", "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": size}}, **spec}})


def member(stage: Stage, name: str, group: str) -> None:
    stage.claim(name, A100)
    body = pod_body(name, None)
    body["spec"]["schedulingGroup"] = {"podGroupName": group}
    stage.client.create(PODS, body)


def unschedulable(stage: Stage, name: str) -> bool:
    pod = stage.client.get(PODS, name, "default")
    return not pods.held(pod) and bool(pods.unschedulable(pod))


def test_gang_is_served_when_it_is_whole(ready: Stage, timeline: Timeline) -> None:
    pod_group(ready, "g", 2)
    member(ready, "a", "g")
    wait_for("it is let go", lambda: not pods.held(ready.client.get(PODS, "a", "default")))
    ready.pod("alone", A100)
    wait_for("a pod that came later runs", lambda: timeline.running("alone"))
    assert not claims.results(ready.client.get(CLAIMS, "a", "default")), "half a gang has a device"
    ready.delete_pod("alone")
    wait_for("all devices are back", lambda: returned(ready))
    member(ready, "b", "g")
    wait_for("both run", lambda: timeline.running("a", "b"))


def test_gang_that_the_pool_cannot_serve_whole_gets_nothing(ready: Stage, timeline: Timeline) -> None:
    pod_group(ready, "large", 3)
    since = mark(ready)
    for name in "abc":
        member(ready, name, "large")
    wait_for("all are refused", lambda: all(unschedulable(ready, name) for name in "abc"))
    assert not any(claims.results(ready.client.get(CLAIMS, name, "default")) for name in "abc")
    assert changes_asked(ready, since) == []
    ready.pod("alone", A100)
    wait_for("its devices are for others", lambda: timeline.running("alone"))


@pytest.fixture
def template(ready: Stage) -> Iterator[str]:
    """Of claims for one device."""
    ready.claim("sample", A100)
    spec = ready.client.get(CLAIMS, "sample", "default")["spec"]
    ready.client.delete(CLAIMS, "sample", namespace="default")
    ready.client.create(TEMPLATES, {
        "apiVersion": TEMPLATES.group_version, "kind": TEMPLATES.kind,
        "metadata": {"name": "one", "namespace": "default"}, "spec": {"spec": spec}})
    yield "one"
    ready.client.delete(TEMPLATES, "one", namespace="default")


def test_claim_of_a_group_is_served_once_for_all_its_pods(ready: Stage, timeline: Timeline, template: str) -> None:
    """The claim is reserved for the PodGroup and for none of its pods (KEP-5729)."""
    wanted = {"name": "gpu", "resourceClaimTemplateName": template}
    pod_group(ready, "sharing", 2, resourceClaims=[wanted])
    since = mark(ready)
    for name in "ab":
        body = pod_body(name, None)
        body["spec"] |= {"schedulingGroup": {"podGroupName": "sharing"}, "resourceClaims": [wanted]}
        ready.client.create(PODS, body)
    wait_for("both run", lambda: timeline.running("a", "b"))
    (claim,) = ready.client.list(CLAIMS, "default").items
    assert [user["resource"] for user in claim["status"]["reservedFor"]] == ["podgroups"]
    assert len(claims.results(claim)) == 1
    if not ready.gated:
        # By reschedule the device can be attached more than once: the group's pods are not nominated to its node.
        assert len(changes_asked(ready, since)) == 1
