# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real nodes move from the vendor's driver to the node agents' own and back, while a claim runs on the other node.

The playbook ``move_driver`` does it. The tests follow each other. The vendor's plugin and the devices are stand-ins.
"""

from __future__ import annotations

import typing as t
from functools import partial

import pytest

from ansible_collections.composable.infra.lab.demo.installed import Installed
from ansible_collections.composable.infra.lab.demo.stage import A100, WORK, Stage
from ansible_collections.composable.infra.lab.names import DRIVER as VENDORS
from ansible_collections.composable.infra.lab.real_nodes.plugin.daemonset import NAME, NAMESPACE
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    DEVICE_CLASSES,
    NODES,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, slices
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.support import real_hardware, real_pods
from ansible_collections.composable.infra.tests.e2e.support.cluster_state import stored_versions
from ansible_collections.composable.infra.tests.e2e.support.played import Played, play, well
from ansible_collections.composable.infra.tests.e2e.support.support import attached, wait_for

OWN, CLASS = "devices.composable.infra", "gpus"
LABEL, MARK = "composable.infra/dra-driver", "composable.infra/moving-driver"
MOVED, BUSY = "real-0", "real-1"
# What a kubelet takes to remove the slices of a plugin that left, and more.
SECONDS = 120
Run = t.Callable[..., Played]


@pytest.fixture(scope="module")
def stage(stage_factory: StageFactory) -> Stage:
    """Two real nodes with the vendor's driver, whose agents are another one by the node's label; a class of both."""
    made = stage_factory(nodes=0, real_nodes=2, devices={A100: 4}, attach=0.1, detach=0.1, hold=600.0, handover="gated",
                         other_drivers=(OWN,), extra={"device_classes": [CLASS]})
    selector = f"device.driver in ['{VENDORS}', '{OWN}'] && device.attributes[device.driver].type == 'gpu'"
    made.client.create(DEVICE_CLASSES, {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
                                        "metadata": {"name": CLASS},
                                        "spec": {"selectors": [{"cel": {"expression": selector}}]}})
    Installed(made, controllers_agent_dra_driver=OWN, controllers_agent_dra_driver_by_label=True)
    wait_for("both nodes are on the fabric", lambda: all("cohdi.io/fabric" in labels(made, n) for n in (MOVED, BUSY)))
    return made


@pytest.fixture(scope="module")
def run(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``run(OWN, "--check", move_nodes=[...])``: the playbook."""
    folder = tmp_path_factory.mktemp("playbooks")

    def start(to: str, *options: str, **variables: t.Any) -> Played:
        given = {"kubeconfig": str(stage.lab.kubeconfig), "move_to": to, "move_timeout": SECONDS, **variables}
        given = {f"composable_{key}": value for key, value in given.items()}
        return play(folder, "composable.infra.move_driver", given, *options)

    return start


def labels(stage: Stage, node: str) -> dict[str, str]:
    """The node's labels."""
    return dict(stage.client.get(NODES, node)["metadata"]["labels"])


def shown(stage: Stage, node: str) -> dict[str, set[str]]:
    """UUIDs of the devices that each driver shows on a node."""
    mine = [item for item in stage.client.list(SLICES).items if slices.node(item) == node]
    return {slices.driver(item): {uuid for uuid, _key in slices.uuids(item)} for item in mine if slices.devices(item)}


def start_pod(stage: Stage, name: str, node: str, count: int = 1) -> None:
    """A pod for devices of whichever driver the node has."""
    product = f'device.attributes[device.driver].productName == "{stage.product(A100)}"'
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS, "count": count,
                                          "selectors": [{"cel": {"expression": product}}]}}
    stage.client.create(CLAIMS, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                                 "metadata": {"name": name, "namespace": "default"},
                                 "spec": {"devices": {"requests": [request]}}})
    stage.pod_only(name, node)


def served_by(stage: Stage, name: str) -> set[str]:
    """The drivers of what a claim was allocated, once its container has printed a device."""
    wait_for(f"the pod {name} is ready", partial(real_pods.ready, stage.lab, name), 60)
    assert stage.first_line(name, WORK).startswith("devices: ")
    assert "GPU-" in stage.first_line(name, WORK)
    return {result["driver"] for result in claims.results(stage.client.get(CLAIMS, name, "default"))}


def container(stage: Stage, name: str) -> list[tuple[str, int, bool]]:
    """Which containers a pod has, how often each was started again, and whether it runs."""
    statuses = stage.client.get(PODS, name, "default")["status"]["containerStatuses"]
    return [(each["containerID"], each["restartCount"], "running" in each["state"]) for each in statuses]


def plugin_nodes(stage: Stage) -> set[str]:
    """Nodes where the vendor's plugin is ready."""
    found = stage.lab.api.get(real_hardware.PLUGIN_PODS)["items"]
    return {pod["spec"]["nodeName"] for pod in found if not pod["metadata"].get("deletionTimestamp")
            and [c["ready"] for c in pod["status"].get("containerStatuses") or []] == [True]}


def written(stage: Stage) -> dict[str, t.Any]:
    """Versions of all that the playbook could write; the controllers renew their Leases meanwhile."""
    return {kind: versions for kind, versions in stored_versions(stage).items() if kind not in ("leases", "events")}


def at_rest(stage: Stage, node: str) -> bool:
    """Whether the node is open, and nothing says that it is being moved."""
    raw = stage.client.get(NODES, node)
    return not raw["spec"].get("unschedulable") and MARK not in (raw["metadata"].get("annotations") or {})


def test_nodes_are_first_told_what_they_have(stage: Stage, run: Run) -> None:
    refused = run(OWN)
    assert refused.status != 0
    assert "would stay on real-0, real-1. Let it select nodes by the label" in "".join(refused.failures)
    assert LABEL not in labels(stage, MOVED)
    well(run(VENDORS))
    assert {labels(stage, node)[LABEL] for node in (MOVED, BUSY)} == {VENDORS}
    assert all(at_rest(stage, node) for node in (MOVED, BUSY))
    select = {"spec": {"template": {"spec": {"nodeSelector": {LABEL: VENDORS}}}}}
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{NAME}"
    before = {pod["metadata"]["uid"] for pod in stage.lab.api.get(real_hardware.PLUGIN_PODS)["items"]}
    stage.lab.api.request("PATCH", path, select, "application/strategic-merge-patch+json")
    wait_for("the plugin by the label", lambda: plugin_nodes(stage) == {MOVED, BUSY} and not before & {
        pod["metadata"]["uid"] for pod in stage.lab.api.get(real_hardware.PLUGIN_PODS)["items"]}, 60)


@pytest.fixture(scope="module")
def running(stage: Stage) -> list[tuple[str, int, bool]]:
    """The container of a claim on the other node, which runs all the while; and a device that is idle on the first."""
    start_pod(stage, "stays", BUSY)
    start_pod(stage, "first", MOVED)
    assert served_by(stage, "stays") == served_by(stage, "first") == {VENDORS}
    real_pods.delete_with_claims(stage.lab, "first")
    return container(stage, "stays")


def test_check_mode_shows_the_label_and_writes_nothing(stage: Stage, run: Run, running: list[t.Any]) -> None:
    before = written(stage)
    checked = well(run(OWN, "--check", "--diff", move_nodes=[MOVED]))
    diffs = [result["diff"] for name, result in checked.tasks if "label" in name and result.get("diff")]
    assert [diff["after"]["metadata"]["labels"] for diff in diffs] == [{LABEL: OWN}]
    assert written(stage) == before


def test_node_moves_with_its_idle_device_while_the_other_goes_on(stage: Stage, run: Run, running: list[t.Any]) -> None:
    idle = shown(stage, MOVED)[VENDORS]
    assert len(idle) == 1
    well(run(OWN, move_nodes=[MOVED]))
    assert labels(stage, MOVED)[LABEL] == OWN
    assert shown(stage, MOVED) == {OWN: idle}
    assert at_rest(stage, MOVED)
    assert plugin_nodes(stage) == {BUSY}
    assert [*shown(stage, BUSY)] == [VENDORS]
    assert container(stage, "stays") == running
    again = well(run(OWN, move_nodes=[MOVED]))
    assert again.changed == []


def test_claims_are_served_on_both_nodes_each_by_its_driver(stage: Stage, running: list[t.Any]) -> None:
    start_pod(stage, "ours", MOVED)
    start_pod(stage, "fresh", MOVED)
    start_pod(stage, "theirs", BUSY)
    assert served_by(stage, "ours") == served_by(stage, "fresh") == {OWN}
    assert served_by(stage, "theirs") == {VENDORS}
    assert len(attached(stage)) == 4
    assert container(stage, "stays") == running
    real_pods.delete_with_claims(stage.lab, "fresh")


def test_move_that_ran_out_of_time_says_why_and_is_gone_on_with(stage: Stage, run: Run, running: list[t.Any]) -> None:
    late = run(VENDORS, move_nodes=[MOVED], move_timeout=2)
    assert late.status != 0
    said = " ".join("".join(late.failures).split())
    assert f"node {MOVED}: default/ours use devices of {OWN} still after 2 s" in said
    assert labels(stage, MOVED)[LABEL] == OWN
    assert not at_rest(stage, MOVED)
    assert served_by(stage, "ours") == {OWN}
    real_pods.delete_with_claims(stage.lab, "ours")
    devices = shown(stage, MOVED)[OWN]
    well(run(VENDORS, move_nodes=[MOVED]))
    assert labels(stage, MOVED)[LABEL] == VENDORS
    assert shown(stage, MOVED) == {VENDORS: devices}
    assert at_rest(stage, MOVED)
    assert plugin_nodes(stage) == {MOVED, BUSY}


def test_back_at_the_vendors_driver_claims_are_served_as_before(stage: Stage, running: list[t.Any]) -> None:
    start_pod(stage, "back", MOVED)
    assert served_by(stage, "back") == {VENDORS}
    assert container(stage, "stays") == running
    assert served_by(stage, "stays") == {VENDORS}
