# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the agent sees in its node's slices."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.controller.agent import node_state
from ansible_collections.composable.infra.controller.agent.lane import Lane
from ansible_collections.composable.infra.controller.agent.node_state import NodeState, trimmed_pod
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import ApiResource
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.tests.unit.controller.agent.fake_operations import NAMESPACE, pod
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi

ADDRESS = "0000:3b:00.0"


def seeing(*devices: dict[str, object]) -> NodeState:
    """A node whose plugin shows these."""
    made = NodeState(FakeApi().client, "node-0", [], Lane("node-0"))
    raw = objects.local_slice("GPU-a")
    raw["spec"]["devices"] += devices
    made.slices.upsert(raw)
    return made


def test_pods_and_slices_of_other_nodes_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """RBAC knows no field selectors, so the agent itself has to keep from other nodes' pods."""
    asked: dict[str, dict[str, str]] = {}

    def reflector(_client: object, resource: ApiResource, *_others: object, **selectors: str) -> None:
        asked[resource.plural] = selectors

    monkeypatch.setattr(node_state, "Reflector", reflector)
    seeing()
    assert asked == {
        "pods": {"field_selector": "spec.nodeName=node-0"},
        "resourceslices": {"field_selector": "spec.nodeName=node-0"},
        "composableresources": {"label_selector": "composable.infra/target-node=node-0"}}


def test_a_gpu_is_shown_by_its_uuid() -> None:
    state = seeing()
    assert state.shows(Evidence("Ready", "dev-1", uuid="GPU-a", address=ADDRESS))
    assert not state.shows(Evidence("Ready", "dev-1", uuid="GPU-b", address=ADDRESS))
    assert state.shown() == state.announced() == {"GPU-a": ("gpu.nvidia.com", "node-0", "gpu-0")}


def test_a_gpu_without_a_uuid_is_shown_by_its_address() -> None:
    """As those of AMD and Intel are."""
    state = seeing({"name": "gpu-0-128", "attributes": {"type": {"string": "amdgpu"}, "pciAddr": {"string": ADDRESS}}})
    assert state.shows(Evidence("Ready", "dev-1", address=ADDRESS))
    assert not state.shows(Evidence("Ready", "dev-1", address="0000:3c:00.0"))
    assert not state.shows(Evidence("Ready", "dev-1"))
    assert state.shown()[ADDRESS] == ("gpu.nvidia.com", "node-0", "gpu-0-128")
    assert ADDRESS not in state.announced()


def test_claims_of_pods_that_have_not_ended() -> None:
    state = seeing()
    for name, phase in (("runs", "Running"), ("waits", "Pending"), ("over", "Succeeded")):
        raw = pod(name, phase=phase, resourceClaimStatuses=[{"name": "made", "resourceClaimName": f"{name}-made"}])
        raw["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimName": f"{name}-own"}, {"name": "made"}]
        state.pods.upsert(raw)
    assert state.claim_names() == {(NAMESPACE, f"{name}-{kind}") for name in ("runs", "waits")
                                   for kind in ("own", "made")}


@pytest.mark.parametrize(("spec", "access"), [
    ({"volumes": [{"name": "v", "emptyDir": {}}],
      "containers": [{"name": "c", "securityContext": {}}]}, False),
    ({"volumes": [{"name": "v", "hostPath": {"path": "/dev"}}]}, True),
    ({"containers": [{"name": "c", "image": "i"},
                     {"name": "d", "securityContext": {"privileged": True}}]}, True),
    ({"initContainers": [{"name": "c", "securityContext": {"privileged": True}}]}, True),
    ({}, False)])
def test_trimmed_pod_tells_whether_it_may_open_devices_without_a_claim(
    spec: dict[str, t.Any], access: bool
) -> None:
    raw = {"metadata": {"name": "p", "uid": "u"}, "spec": spec}
    assert (pods.has_host_access(raw), pods.has_host_access(trimmed_pod(raw))) == (access, access)
    assert "image" not in str(trimmed_pod(raw))
