# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A device on a node's bus becomes labels, a driver and a slice by what our roles have written, and leaves no trace."""

from __future__ import annotations

import copy
import sys
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.pytest_plugin import LabFactory
from ansible_collections.composable.infra.tests.e2e.support.by_hand import announced
from ansible_collections.composable.infra.tests.e2e.support.lab_support import create_pod_with_claim, phase, wait_for
from ansible_collections.composable.infra.tests.e2e.support.label_chain import (
    BOUND,
    DEPLOY,
    OWNED,
    PCI,
    PRESENT,
    RULES,
    WORKER,
    Chain,
    Json,
    Operator,
    Plugin,
    patch,
    pod_on,
)
from ansible_collections.composable.infra.tests.e2e.support.played import Played, play, role, stored, well
from ansible_collections.composable.infra.tests.e2e.support.played import whole_nodes as nodes
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

pytestmark = pytest.mark.slow
FABRIC = {"cohdi.io/fabric": "1", "cohdi.io/a100": "true"}
RULE = f"{RULES}/composable-infra-driver"
CLAIM = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/uses-gpu"
DRIVER = "/apis/apps/v1/namespaces/gpu-operator/daemonsets/nvidia-driver-daemonset"
ROLES = ("nfd", "gpu_operator", "nvidia_dra_driver")
LABELLED: dict[str, str] = {PCI: "true", PRESENT: "true", **dict.fromkeys(DEPLOY, "true")}
Run = Callable[..., Played]


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Iterator[Lab]:
    """A lab whose nodes somebody else has labelled too; the DRA driver's chart brings the class itself."""
    found = lab_factory(nodes=2)
    found.api.request("DELETE", "/apis/resource.k8s.io/v1/deviceclasses/gpu.nvidia.com")
    for node in found.nodes:
        marks = {"example.com/rack": "r1", "feature.node.kubernetes.io/mine": "true"}
        patch(found, f"/api/v1/nodes/{node}", {"metadata": {"labels": marks, "annotations": {"example.com/by": "me"}}})
    yield found
    found.down()


@pytest.fixture(scope="module")
def run(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``run("nfd", nfd_state="absent")``: roles with a driver container and a plugin that wants a bound driver."""
    folder = tmp_path_factory.mktemp("chain")
    given: Json = {
        "composable_kubeconfig": str(lab.kubeconfig), "composable_wait_timeout": 60,
        "composable_helm_binary": str(Path(sys.executable).parent / "helm"),
        "composable_chart_mirror": str(ROOT / "tests" / "charts"),
        "composable_driver_shape": "container", "gpu_operator_wait": False,
        "nfd_fabrics": [{"id": "1", "models": ["a100"], "nodes": ["node-0"]}],
        "nvidia_dra_driver_node_selector": {"nvidia.com/gpu.deploy.client": "true", BOUND: "true"}}

    def start(*names: str, **variables: t.Any) -> Played:
        return play(folder, [one for name in names for one in role(name)], {**given, **variables})

    return start


@pytest.fixture(scope="module")
def untouched(lab: Lab) -> dict[str, Json]:
    """The nodes before any role."""
    return nodes(lab)


@pytest.fixture(scope="module")
def installed(lab: Lab, untouched: dict[str, Json], run: Run) -> Chain:
    """The roles have run, and everyone has looked once."""
    well(run(*ROLES))
    chain = Chain(lab)
    chain.turn()
    wait_for("the driver's DaemonSet", lambda: lab.api.get(DRIVER)["status"].get("observedGeneration"))
    return chain


@pytest.fixture
def chain(lab: Lab, installed: Chain) -> Iterator[Chain]:
    """No device is anywhere, before and after."""
    yield installed
    empty(lab, installed)


def labelled(before: dict[str, Json], node: str, **annotations: str) -> Callable[[dict[str, str]], dict[str, Json]]:
    """The same nodes, one of them with further labels, and annotations."""

    def make(labels: dict[str, str]) -> dict[str, Json]:
        after = copy.deepcopy(before)
        after[node]["metadata"]["labels"] |= labels
        after[node]["metadata"]["annotations"] |= annotations
        return after

    return make


def others(lab: Lab) -> dict[str, str]:
    """resourceVersions of all objects but those whose status counts the chain's pods."""
    counting = ("daemonsets gpu-operator/nvidia-driver", "daemonsets dra-driver-nvidia-gpu/", "clusterpolicies ")
    return {name: version for name, version in stored(lab).items() if not name.startswith(counting)}


def until(look: Callable[[], None], what: str, check: Callable[[], bool]) -> None:
    """Let somebody look until something is so."""

    def looked() -> bool:
        look()
        return check()

    wait_for(what, looked, 60)


def empty(lab: Lab, chain: Chain) -> None:
    """Take all devices away and wait until nothing runs for them."""
    for node in lab.nodes:
        chain.plug(node)

    def gone() -> bool:
        pods = any(lab.api.get(f"/api/v1/pods?labelSelector={name}")["items"] for name in (Operator.DRIVER, Plugin.POD))
        return not pods and all(announced(lab, node) is None for node in lab.nodes)

    until(chain.turn, "empty nodes", gone)


def test_labels_follow_a_device_from_the_bus_to_the_slice_and_back(lab: Lab, chain: Chain) -> None:
    before, rest = nodes(lab), others(lab)
    chain.plug("node-0", "a")
    assert nodes(lab) == before
    chain.nfd.turn()
    seen = labelled(before, "node-0", **{OWNED: "cohdi.io/a100,cohdi.io/fabric,pci-10de.present"})
    assert nodes(lab) == seen({PCI: "true"})
    chain.operator.turn()
    assert nodes(lab) == seen(LABELLED)
    until(chain.driver.turn, "the driver", lambda: chain.driver.loaded("node-0"))
    assert not pod_on(lab, "node-0", Plugin.POD)
    chain.nfd.turn()
    ready = labelled(before, "node-0", **{OWNED: f"cohdi.io/a100,cohdi.io/fabric,{BOUND},pci-10de.present"})
    assert nodes(lab) == ready({**LABELLED, BOUND: "true"})
    until(chain.plugin.turn, "the slice", lambda: announced(lab, "node-0") == ["GPU-a"])
    assert announced(lab, "node-1") is None
    assert nodes(lab) == ready({**LABELLED, BOUND: "true"})
    empty(lab, chain)
    assert nodes(lab) == labelled(before, "node-0")({PRESENT: "false"})
    assert others(lab) == rest


def test_what_a_node_can_get_does_not_depend_on_a_device(lab: Lab, chain: Chain) -> None:
    has = [nodes(lab)[node]["metadata"]["labels"].items() >= FABRIC.items() for node in lab.nodes]
    assert has == [True, False]


def test_one_of_two_devices_leaves_and_the_other_stays_in_use(lab: Lab, chain: Chain) -> None:
    chain.plug("node-0", "a", "b")
    until(chain.turn, "both", lambda: announced(lab, "node-0") == ["GPU-a", "GPU-b"])
    create_pod_with_claim(lab, "default", "uses-gpu")
    wait_for("a running pod", lambda: phase(lab, "default", "uses-gpu") == "Running")
    before, rest = nodes(lab), others(lab)
    allocation = lab.api.get(CLAIM)["status"]["allocation"]
    chain.plug("node-0", "a" if allocation["devices"]["results"][0]["device"] == "gpu-0" else "b")
    until(chain.turn, "one", lambda: len(announced(lab, "node-0") or ()) == 1)
    assert nodes(lab) == before
    assert {name for name, version in others(lab).items() if rest.get(name) != version} == {
        "resourceslices /node-0-gpu.nvidia.com-lab"}
    lab.api.request("DELETE", "/api/v1/namespaces/default/pods/uses-gpu")
    lab.api.request("DELETE", CLAIM)


def _rule(**changes: Json) -> Callable[[Lab], None]:
    """Other expressions in our rule, by feature."""

    def change(lab: Lab) -> None:
        rules = lab.api.get(RULE)["spec"]["rules"]
        for term in rules[0]["matchFeatures"]:
            term["matchExpressions"] = changes.get(term["feature"].partition(".")[0], term["matchExpressions"])
        patch(lab, RULE, {"spec": {"rules": rules}})

    return change


def _worker(**changes: t.Any) -> Callable[[Lab], None]:
    """Another configuration of the worker's source pci."""

    def change(lab: Lab) -> None:
        config = yaml.safe_load(lab.api.get(WORKER)["data"]["nfd-worker.conf"])
        config["sources"]["pci"] |= changes
        patch(lab, WORKER, {"data": {"nfd-worker.conf": yaml.safe_dump(config)}})

    return change


@pytest.mark.parametrize(("break_it", "still"), [
    (_rule(pci={"vendor": {"op": "In", "value": ["1002"]}}), LABELLED),
    (_rule(kernel={"nouveau": {"op": "Exists"}}), LABELLED),
    (_worker(deviceClassWhitelist=["0b40"]), {}),
    (_worker(deviceLabelFields=["device"]), {"feature.node.kubernetes.io/pci-2330.present": "true"}),
], ids=["another vendor", "another module", "another class", "another label"])
def test_a_broken_link_breaks_the_chain(
    lab: Lab, chain: Chain, break_it: Callable[[Lab], None], still: dict[str, str]
) -> None:
    before = nodes(lab)["node-0"]["metadata"]["labels"]
    whole = [(path, lab.api.get(path)) for path in (RULE, WORKER)]
    break_it(lab)
    chain.plug("node-0", "a")
    until(chain.turn, "the driver, if it is to come", lambda: chain.driver.loaded("node-0") or PRESENT not in still)
    chain.turn()
    assert nodes(lab)["node-0"]["metadata"]["labels"] == before | still
    assert not pod_on(lab, "node-0", Plugin.POD)
    assert announced(lab, "node-0") is None
    for path, was in whole:
        patch(lab, path, {name: was[name] for name in ("spec", "data") if name in was})
    until(chain.turn, "the slice", lambda: announced(lab, "node-0") == ["GPU-a"])


def test_removed_the_stack_leaves_the_nodes_as_they_were(
    lab: Lab, installed: Chain, untouched: dict[str, Json], run: Run
) -> None:
    installed.plug("node-0", "a")
    until(installed.turn, "the slice", lambda: announced(lab, "node-0") == ["GPU-a"])
    patch(lab, "/api/v1/nodes/node-1", {"metadata": {"labels": {"nvidia.com/gpu.deploy.operands": "false"}}})
    absent = {f"{name}_state": "absent" for name in ROLES}
    well(run(*reversed(ROLES), **absent))
    installed.nfd.prune()
    assert nodes(lab) == labelled(untouched, "node-1")({"nvidia.com/gpu.deploy.operands": "false"})
    assert well(run(*reversed(ROLES), **absent)).changed == []
