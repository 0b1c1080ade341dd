# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for what stands between a node's bus and its ResourceSlice: NFD, the GPU Operator, driver and DRA plugin.

None of them is the real program. Each does its one part, from what our roles have written into a real API server: the
worker's configuration, the NodeFeatureRules, the ClusterPolicy, the node selectors of the DaemonSets.
"""

from __future__ import annotations

import contextlib
import threading
import typing as t
from collections.abc import Iterator, Mapping
from pathlib import Path

import urllib3
import yaml

from ansible_collections.composable.infra.lab.api import ApiRefusal
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.hardware.fabric import PluggedDevice
from ansible_collections.composable.infra.lab.hardware.node.kernel import NodeKernel
from ansible_collections.composable.infra.lab.hardware.plugin.slice_store import SliceStore
from ansible_collections.composable.infra.lab.hardware.slices import device_entries
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.label_rules import (
    NFD_LABELS,
    node_features,
    pci_labels,
    rule_labels,
)

Json = dict[str, t.Any]
PCI = f"{NFD_LABELS}pci-10de.present"
OWNED = "nfd.node.kubernetes.io/feature-labels"
WORKER = "/api/v1/namespaces/node-feature-discovery/configmaps/node-feature-discovery-worker-conf"
RULES = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
PRESENT = "nvidia.com/gpu.present"
DEPLOY = tuple(f"nvidia.com/gpu.deploy.{operand}" for operand in (
    "driver", "container-toolkit", "device-plugin", "gpu-feature-discovery", "dcgm", "dcgm-exporter",
    "operator-validator", "client"))
BOUND = "composable.infra/driver-bound"


def patch(lab: Lab, path: str, body: Json) -> None:
    """A merge patch."""
    lab.api.request("PATCH", path, body, "application/merge-patch+json")


def metadata(lab: Lab, node: str) -> Json:
    """Labels and annotations of a node, among other things."""
    found: Json = lab.api.get(f"/api/v1/nodes/{node}")["metadata"]
    return found


def pod_on(lab: Lab, node: str, label: str) -> str:
    """UID of the running pod with this label on the node; empty without one."""
    pods = lab.api.get(f"/api/v1/pods?labelSelector={label}&fieldSelector=spec.nodeName%3D{node}")["items"]
    return next((pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") == "Running"
                 and not pod["metadata"].get("deletionTimestamp")), "")


class Nfd:
    """Stand-in for NFD's workers and master."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def turn(self) -> None:
        """Look at each node once and bring its labels up to date."""
        config = yaml.safe_load(self._lab.api.get(WORKER)["data"]["nfd-worker.conf"])
        rules = [rule for item in self._lab.api.get(RULES)["items"] for rule in item["spec"]["rules"]]
        for node in self._lab.nodes:
            seen = node_features(self._lab.node_folder(node), node)
            self._write(node, pci_labels(config["sources"]["pci"], seen) | rule_labels(rules, seen))

    def prune(self) -> None:
        """What the chart's hook does at its removal."""
        for node in self._lab.nodes:
            self._write(node, {})

    def _write(self, node: str, labels: Mapping[str, str]) -> None:
        text = (metadata(self._lab, node).get("annotations") or {}).get(OWNED, "")
        owned = [name if "/" in name else NFD_LABELS + name for name in text.split(",") if name]
        names = ",".join(sorted(name.removeprefix(NFD_LABELS) for name in labels))
        patch(self._lab, f"/api/v1/nodes/{node}", {"metadata": {
            "labels": {**dict.fromkeys(owned), **labels}, "annotations": {OWNED: names or None}}})


class Operator:
    """Stand-in for the GPU Operator: labels nodes by NFD's labels, and runs the driver where ClusterPolicy says so."""

    DRIVER = "app.kubernetes.io/component%3Dnvidia-driver"

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def turn(self) -> None:
        """Bring labels, driver and the policy's state up to date."""
        for node in self._lab.nodes:
            patch(self._lab, f"/api/v1/nodes/{node}", {"metadata": {"labels": self._wanted(node)}})
        if self._lab.api.get(POLICY)["spec"]["driver"]["enabled"]:
            self._lab.api.apply(_driver_daemon_set())
        self.ready()

    def ready(self) -> None:
        """Say that all is ready."""
        patch(self._lab, f"{POLICY}/status", {"status": {"state": "ready"}})

    def _wanted(self, node: str) -> dict[str, str | None]:
        labels = metadata(self._lab, node)["labels"]
        if any(labels.get(f"{NFD_LABELS}pci-{name}.present") == "true" for name in ("10de", "0302_10de", "0300_10de")):
            # what somebody else has set is honoured
            return {PRESENT: "true", **{name: labels.get(name) or "true" for name in DEPLOY}}
        return {PRESENT: "false", **dict.fromkeys(DEPLOY)} if PRESENT in labels else {}


def _driver_daemon_set() -> Json:
    labels = {"app.kubernetes.io/component": "nvidia-driver"}
    spec = {"nodeSelector": {"nvidia.com/gpu.deploy.driver": "true"}, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "driver", "image": "example.invalid/driver:1"}]}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "nvidia-driver-daemonset", "namespace": "gpu-operator"},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}}


@contextlib.contextmanager
def operator_says_ready(lab: Lab) -> Iterator[None]:
    """Meanwhile every ClusterPolicy becomes ready, as the operator would have it."""
    end = threading.Event()

    def work() -> None:
        while not end.wait(0.2):
            with contextlib.suppress(ApiRefusal, urllib3.exceptions.HTTPError):
                Operator(lab).ready()

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    yield
    end.set()
    worker.join()


class Driver:
    """Stand-in for the driver's container: its module is loaded while its pod runs, but not before a GPU is there."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def turn(self) -> None:
        """Load or unload the module."""
        for node in self._lab.nodes:
            root = self._lab.node_folder(node)
            possible = self.loaded(node) or bool(by_hand.gpus(root))
            line = "nvidia 104071168 0 - Live 0x0\n" if possible and pod_on(self._lab, node, Operator.DRIVER) else ""
            (root / "proc" / "modules").write_text(line, encoding="utf-8")

    def loaded(self, node: str) -> bool:
        """Whether the module is loaded."""
        return "nvidia" in node_features(self._lab.node_folder(node), node)["kernel.loadedmodule"]


class Plugin:
    """Stand-in for the DRA plugin: it looks at its devices once, when its DaemonSet's pod is there."""

    POD = "app.kubernetes.io/name%3Ddra-driver-nvidia-gpu"

    def __init__(self, lab: Lab, kernels: Mapping[str, NodeKernel]) -> None:
        self._lab, self._kernels, self._store = lab, kernels, SliceStore(lab.api)
        self._looked: dict[str, str] = {}

    def turn(self) -> None:
        """Announce what is there where a pod is new; where none is, the kubelet takes the slice away."""
        for node in self._lab.nodes:
            uid = pod_on(self._lab, node, self.POD)
            if uid and uid != self._looked.get(node):
                self._store.publish(node, device_entries(self._kernels[node].records.devices()))
                self._looked[node] = uid
            elif not uid and node in self._looked:
                del self._looked[node]
                self._store.drop(node)

    def restart(self, node: str) -> None:
        """Have it look again, as whoever attaches a device does: its pod is deleted."""
        self._looked[node] = ""


class Chain:
    """All of them over one lab whose nodes hang on no fabric: the test plugs devices in."""

    def __init__(self, lab: Lab) -> None:
        self._kernels = {node: NodeKernel(lab.node_folder(node), 2, True, _offer) for node in lab.nodes}
        self.nfd, self.operator, self.driver = Nfd(lab), Operator(lab), Driver(lab)
        self.plugin = Plugin(lab, self._kernels)

    def plug(self, node: str, *names: str) -> None:
        """Have just these devices on the node's bus, each removed there before it leaves, and the plugin look again."""
        kernel = self._kernels[node]
        for device in kernel.records.devices():
            if device.uuid.removeprefix("GPU-") not in names:
                kernel.remove(device.address)
        kernel.plug([PluggedDevice(f"uid-{name}", f"GPU-{name}", "A100") for name in names])
        self.plugin.restart(node)

    def turn(self) -> None:
        """Everyone looks once."""
        for each in (self.nfd, self.operator, self.driver, self.plugin):
            each.turn()


def _offer(_folder: Path, _verb: str, _address: str) -> None:
    """Nobody writes to these nodes' buses."""
