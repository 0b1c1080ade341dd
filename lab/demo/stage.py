# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lab and emulator with a matching configuration, and the pods that users would create on them."""

from __future__ import annotations

import tempfile
import time
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.emulator.pool.fabric_spec import simple_spec
from ansible_collections.composable.infra.lab.api import ApiRefusal
from ansible_collections.composable.infra.lab.binaries.releases import DEFAULT_SERIES, find_release
from ansible_collections.composable.infra.lab.control_plane.bootstrap import gate_documents, provisioning_documents
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.hardware.plugin import daemonset
from ansible_collections.composable.infra.lab.names import DRIVER, OWN_DRIVER
from ansible_collections.composable.infra.lab.options import LabOptions
from ansible_collections.composable.infra.lab.real_nodes.images import WORKLOAD
from ansible_collections.composable.infra.lab.real_nodes.plugin import daemonset as real_daemonset
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    NAMESPACES,
    PODS,
    PROVISIONING_REQUESTS,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods

Json = dict[str, t.Any]
# A limit for hangs: a new CRD is served within a second.
SERVED_SECONDS = 60.0
WORK, BESIDE = "work", "beside"
A100, H100 = "NVIDIA-A100-PCIE-40GB", "NVIDIA-H100-PCIe"


@dataclass(frozen=True, slots=True)
class StageOptions:
    """Options of a stage. All times are in seconds.

    ``devices`` is the total per model. ``announce`` is how long a start of the vendor's DRA plugin
    takes. ``announce_patience`` is how long the agents wait until a plugin shows a device.
    Meanwhile they restart the plugin. ``hands`` is like the setting node_operations. With ``agent``, a
    node agent runs for each node. ``spare_machines`` are machines of the fabric that are no nodes.
    ``real_nodes`` is the number of nodes with their own kubelet. Their agents run as a DaemonSet,
    see ``installed.py``, and their pods have a second container without devices. ``managers`` are
    CDI Managers of the emulator over the same devices. The first one is used until ``use`` is
    called. With ``handover`` gated, the admission policy gates pods of the default namespace, or
    their template does if the release does not serve the policy. ``driver`` is the vendor's driver,
    or the node agents' own driver in its place. The handover direct always uses their own.
    ``other_drivers`` are further drivers of all models. With ``gangs``, the scheduler knows
    PodGroups. ``capacity`` is that of each device in the pools.
    """

    nodes: int = 2
    real_nodes: int = 0
    devices: Mapping[str, int] = field(default_factory=lambda: {A100: 2, H100: 2})
    fabrics: int = 1
    attach: float = 2.0
    detach: float = 0.5
    announce: float = 0.05
    announce_patience: float = 30.0
    hands: str = "agent"
    spare_machines: tuple[str, ...] = ()
    hold: float = 600.0
    attach_timeout: float = 60.0
    scan_interval: float = 5.0
    kubernetes: str = DEFAULT_SERIES
    feature_gates: bool = True
    binding_timeout: float | None = None
    audit: bool = False
    handover: str = "reschedule"
    driver: str = DRIVER
    other_drivers: tuple[str, ...] = ()
    managers: tuple[str, ...] = ("fm",)
    manager_settings: Mapping[str, t.Any] = field(default_factory=dict)
    extra: Mapping[str, t.Any] = field(default_factory=dict)
    gangs: bool = False
    capacity: Mapping[str, str] = field(default_factory=dict)


def lab_options(options: StageOptions) -> LabOptions:
    """Return the options of the lab for a stage."""
    return LabOptions(nodes=options.nodes, real_nodes=options.real_nodes, plugin_start=options.announce,
                      kubernetes=options.kubernetes, binding_timeout=options.binding_timeout, audit=options.audit,
                      feature_gates=options.feature_gates, gangs=options.gangs)


def device_name(model: str) -> str:
    """Return the ``k8s-device-name`` of a model, for example nvidia-a100-pcie-40gb."""
    return model.lower().replace(" ", "-")


class Stage:
    """All running parts, as a context manager that removes everything.

    ``lab`` is a running lab with the nodes of the options, which stays when the stage is closed.
    Without it, the stage starts its own lab.
    """

    def __init__(self, options: StageOptions | None = None, *, say: t.Callable[[str], None] = lambda line: None,
                 lab: Lab | None = None) -> None:
        self.options = options or StageOptions()
        self.driver = OWN_DRIVER if self.options.handover == "direct" else self.options.driver
        self._folder = tempfile.TemporaryDirectory(prefix="composable-infra-stage-")
        self.folder = Path(self._folder.name)
        self._borrowed = lab is not None
        self.lab = lab or Lab.up(lab_options(self.options), say)
        self._emulator: t.Any = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        o = self.options
        machines = [*self.lab.nodes, *(node.name for node in self.lab.real_nodes), *o.spare_machines]
        spec = simple_spec(machines, dict(o.devices), fabrics=o.fabrics, attach=o.attach, detach=o.detach,
                           managers=list(o.managers), settings=dict(o.manager_settings))
        self.spec = spec
        self._emulator = Emulator.run(spec, self.folder / "emulator", self.lab.address)
        self.emulator: Emulator = self._emulator.__enter__()
        self.lab.attach_hardware(self.emulator.url, Path(self.emulator.ca_path), plugin_start=o.announce)
        if self.own_driver:
            plugins = f"/apis/apps/v1/namespaces/{daemonset.NAMESPACE}/daemonsets"
            for name in (daemonset.NAME, *([real_daemonset.NAME] if o.real_nodes else [])):
                self.lab.api.request("DELETE", f"{plugins}/{name}")
        if o.hands == "agent" and o.nodes:
            self.lab.start_agents(dra_driver=self.own_driver, announce_patience=o.announce_patience)
        self.client = Client(Connection.load(str(self.lab.kubeconfig)))
        self.kubeconfig = self.lab.service_account_kubeconfig("composable-infra", "composable-infra")
        self.config_path = self.folder / "config.yml"
        self.use(o.managers[0])
        if o.extra.get("provisioning_requests"):
            self._serve_provisioning_requests()
        self.gated = o.handover == "gated"
        if self.gated:
            labels = {"metadata": {"labels": {pods.OPT: "true"}}}
            self.client.merge_patch(NAMESPACES, "default", labels)

    def _serve_provisioning_requests(self) -> None:
        """Create the CRD and the permissions, and wait until the API server serves the kind."""
        for document in provisioning_documents():
            self.lab.api.apply(document)
        path, deadline = PROVISIONING_REQUESTS.path(), time.monotonic() + SERVED_SECONDS
        while not self.lab.api.exists(path):
            if time.monotonic() > deadline:
                raise LabError(f"the API server does not serve {path} within {SERVED_SECONDS:g} s")
            time.sleep(0.05)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_unused: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything, even after a failed start."""
        try:
            if self._emulator is not None:
                self._emulator.__exit__(None, None, None)
        finally:
            if not self._borrowed:
                self.lab.down()
            self._folder.cleanup()

    def use(self, manager: str) -> None:
        """Let front doors that start from now on use this CDI Manager."""
        self.config_path.touch(0o600)
        self.config_path.write_text(yaml.safe_dump(self.config(manager), sort_keys=False), encoding="utf-8")

    def config(self, manager: str = "") -> Json:
        """Return the configuration of all front doors. Without ``manager``, use the first CDI
        Manager."""
        o = self.options
        return {
            "device_info": [self._row(i, model) for i, model in enumerate(o.devices, start=1)],
            "handover": o.handover,
            "device_no_removal_duration": o.hold,
            "scan_interval": o.scan_interval,
            "node_operations": o.hands,
            "fabric": self.emulator.fabric_config(manager=manager or o.managers[0], attach_timeout=o.attach_timeout),
            **o.extra,
        }

    def _row(self, index: int, model: str) -> Json:
        others = {"other-driver-names": [*self.options.other_drivers]} if self.options.other_drivers else {}
        size = {"capacity": {**self.options.capacity}} if self.options.capacity else {}
        kind = next(str(m.get("kind", "gpu")) for m in self.spec["models"] if m["name"] == model)
        type_ = "gpu" if kind == "gpu" else "cxl-memory"
        return {"index": index, "cdi-model-name": model, "driver-name": self.driver, **others, **size,
                "k8s-device-name": device_name(model), "cannot-coexist-with": [], "kind": kind,
                "dra-attributes": {"type": type_, "productName": self.product(model), "uuid": ""}}

    def product(self, model: str) -> str:
        """Return the productName that the simulated nodes announce for a model."""
        return next(str(m["product_name"]) for m in self.spec["models"] if m["name"] == model)

    @property
    def own_driver(self) -> str:
        """Return the driver name of the node agents, or an empty string if the vendor's plugin has
        the devices."""
        return self.driver if self.driver == OWN_DRIVER else ""

    @property
    def policed(self) -> bool:
        """Return whether the admission policy exists, which gates pods by their namespace."""
        return bool(gate_documents(find_release(self.options.kubernetes)))

    @property
    def pooled(self) -> bool:
        """Return whether pools can be published, because the release keeps binding conditions."""
        return self.options.feature_gates or self.policed

    def pod(self, name: str, model: str, count: int = 1, node: str | None = None, *, gated: bool = True,
            by_template: bool = False) -> None:
        """Create a claim and a pod of the same name that uses it.

        With ``gated`` False, the pod opts out. With ``by_template``, it has the gate itself,
        whatever the policy does.
        """
        self.claim(name, model, count)
        self.pod_only(name, node, gated=gated, by_template=by_template)

    def pod_only(self, name: str, node: str | None = None, *, gated: bool = True, by_template: bool = False) -> None:
        """Create a pod that uses the existing claim of its name, with options like `pod`."""
        body = real_pod_body(name, node) if self.options.real_nodes else pod_body(name, node)
        if self.gated and not gated:
            body["metadata"]["labels"] = {pods.OPT: "false"}
        elif self.gated and (by_template or not self.policed):
            body["spec"]["schedulingGates"] = [{"name": pods.GATE}]
        self.client.create(PODS, body)

    def claim(self, name: str, model: str, count: int = 1, *, local: bool = False) -> None:
        """Create a claim. With ``local``, it accepts only a device of a node."""
        cel = f'device.attributes["{self.driver}"].productName == "{self.product(model)}"'
        if local:
            cel += f' && device.attributes["{self.driver}"].uuid != ""'
        request = {"name": "gpu", "exactly": {"deviceClassName": self.driver, "allocationMode": "ExactCount",
                                              "count": count, "selectors": [{"cel": {"expression": cel}}]}}
        self.client.create(CLAIMS, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                                    "metadata": {"name": name, "namespace": "default"},
                                    "spec": {"devices": {"requests": [request]}}})

    def printed(self, pod: str, container: str = WORK) -> str:
        """Return the output of a container on a real node, or "" before it runs.

        It is read through API server and kubelet.
        """
        try:
            return str(self.lab.api.get(f"/api/v1/namespaces/default/pods/{pod}/log?container={container}"))
        except ApiRefusal:
            return ""

    def first_line(self, pod: str, container: str = WORK, seconds: float = 10.0) -> str:
        """Return the first line of a container on a real node, or "" after ``seconds`` without
        one."""
        deadline = time.monotonic() + seconds
        while "\n" not in (text := self.printed(pod, container)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return text.partition("\n")[0]

    def delete_pod(self, name: str) -> None:
        """Delete a pod and its claim."""
        self.client.delete(PODS, name, namespace="default")
        self.client.delete(CLAIMS, name, namespace="default")


def pod_body(name: str, node: str | None) -> Json:
    """Return a pod with one container that uses the claim of the pod's name. ``node`` sets a node
    selector."""
    spec: Json = {"containers": [{"name": WORK, "image": "example.invalid/work:1",
                                  "resources": {"claims": [{"name": "gpu"}]}}],
                  "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
                  "terminationGracePeriodSeconds": 0}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def real_pod_body(name: str, node: str | None) -> Json:
    """Return such a pod for a real node, with a second container without devices. Both print their
    devices."""
    body = pod_body(name, node)
    spec = body["spec"]
    spec["containers"][0]["image"] = WORKLOAD
    spec["containers"].append({"name": BESIDE, "image": WORKLOAD})
    # Without a grace period the pod object would be gone before its containers.
    spec["terminationGracePeriodSeconds"] = 1
    return body
