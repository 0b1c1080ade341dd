# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of a large cluster as its API server returns them, including all fields that the engine
does not read.

Each node has eight GPUs attached, four of them used by a pod each, and six pods of DaemonSets.
Sizes are those of real objects: a kubelet reports up to 50 images, NVIDIA's DRA driver thirteen
attributes for a GPU, and every object has ``managedFields``. Each object has another creation time.
All values are derived from numbers, so that every run has the same.
"""

from __future__ import annotations

import typing as t
import uuid
import zlib

from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.agent_leases import (
    AGENT_LABELS,
    AGENT_LEASE,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi, pods
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.ready import with_ready
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.node import evidence
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence, Link
from ansible_collections.composable.infra.plugins.module_utils.planning.node.scale import request_name
from ansible_collections.composable.infra.plugins.module_utils.planning.pool.plan import PoolSnapshot, slice_spec
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import Settings

Json = dict[str, t.Any]
GPUS, USED, DAEMONS, IMAGES = 8, 4, 6, 50
MODEL, PRODUCT, DEVICE, DRIVER = "NVIDIA-A100-PCIE-40GB", "NVIDIA A100-PCIE-40GB", "nvidia-a100", "gpu.nvidia.com"
ROW = {"index": 1, "cdi-model-name": MODEL, "driver-name": DRIVER, "k8s-device-name": DEVICE, "cannot-coexist-with": [],
       "dra-attributes": {"type": "gpu", "productName": PRODUCT, "uuid": ""}}
BORN = 1_790_000_000.0
SELECTOR = f'device.attributes["{DRIVER}"].productName == "{PRODUCT}"'


def uid(*parts: object) -> str:
    """Return a UID that is always the same for the same parts."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join(map(str, parts))))


def moment(*parts: object, after: float = 0.0) -> float:
    """Return the time of an event in epoch seconds, within two weeks and almost unique."""
    return BORN + zlib.crc32("/".join(map(str, parts)).encode()) % 1_209_600 + after


def name_of(node: int) -> str:
    """Return the name of a node."""
    return f"worker-{node:04d}.cluster.example.com"


def serial(node: int, gpu: int) -> str:
    """Return the UUID of a GPU on its node."""
    return f"GPU-{uid('gpu', node, gpu)}"


def machine(node: int) -> str:
    """Return the UID of a node's machine at the CDI Manager."""
    return uid("machine", node)


def device_uid(node: int, gpu: int) -> str:
    """Return the UID of a GPU at the CDI Manager."""
    return uid("device", node, gpu)


def _meta(kind: str, name: str, namespace: str = "", **more: t.Any) -> Json:
    made: Json = {"name": name, "uid": uid(kind, namespace, name), "resourceVersion": "1000",
                  "creationTimestamp": format_time(moment(namespace, name)), **more,
                  "managedFields": [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1",
                                     "time": format_time(BORN), "fieldsType": "FieldsV1",
                                     "fieldsV1": {f"f:field-{i}": {".": {}, "f:value": {}} for i in range(20)}}]}
    return {**made, "namespace": namespace} if namespace else made


def node(number: int) -> Json:
    """Return a Node as a kubelet reports it."""
    name = name_of(number)
    amounts = {"cpu": "64", "memory": "527942708Ki", "ephemeral-storage": "1843269236Ki", "hugepages-1Gi": "0",
               "hugepages-2Mi": "0", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
              "topology.kubernetes.io/zone": f"rack-{number // 40}", "node-role.kubernetes.io/worker": "",
              "cohdi.io/fabric": "1", f"cohdi.io/{DEVICE}": "true", f"cohdi.io/{DEVICE}-size-min": str(GPUS),
              **{f"feature.node.kubernetes.io/cpu-cpuid.F{i}": "true" for i in range(40)}}
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    return {
        "metadata": _meta("node", name, labels=labels, annotations={
            "node.alpha.kubernetes.io/ttl": "0", "csi.volume.kubernetes.io/nodeid": f'{{"csi":"{name}"}}',
            "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            "projectcalico.org/IPv4Address": f"10.{number // 250}.{number % 250}.1/24"}),
        "spec": {"podCIDR": f"10.{number // 250}.{number % 250}.0/24", "podCIDRs": ["10.0.0.0/24"],
                 "providerID": f"fsas-cdi://{machine(number)}"},
        "status": {
            "capacity": amounts, "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": f"192.168.{number // 250}.{number % 250}"},
                          {"type": "Hostname", "address": name}],
            "conditions": [{"type": kind, "status": "True" if kind == "Ready" else "False",
                            "lastHeartbeatTime": format_time(BORN), "lastTransitionTime": format_time(moment(name)),
                            "reason": f"Kubelet{kind}", "message": "kubelet has sufficient of everything available"}
                           for kind in kinds],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {"machineID": uid("id", number), "systemUUID": machine(number), "bootID": uid("boot", number),
                         "kernelVersion": "5.14.0-503.el9.x86_64", "osImage": "Red Hat Enterprise Linux 9.5",
                         "containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": "v1.36.3",
                         "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64"},
            "images": [{"names": [f"registry.example.com/team-{i}/image@sha256:{i:064x}",
                                  f"registry.example.com/team-{i}/image:v1.{i}"], "sizeBytes": 1_000_000 * i}
                       for i in range(IMAGES)]}}


def node_slice(number: int) -> Json:
    """Return the ResourceSlice of NVIDIA's DRA driver for the GPUs of a node."""
    name = name_of(number)
    owner = [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid("node", "", name), "controller": True}]
    return {"metadata": _meta("slice", f"{name}-{DRIVER}-{number:05d}", generateName=f"{name}-{DRIVER}-",
                              ownerReferences=owner, generation=1),
            "spec": {"driver": DRIVER, "nodeName": name, "devices": [_device(number, i) for i in range(GPUS)],
                     "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}}


def _device(number: int, gpu: int) -> Json:
    attributes: Json = {
        "type": {"string": "gpu"}, "uuid": {"string": serial(number, gpu)}, "productName": {"string": PRODUCT},
        "brand": {"string": "Nvidia"}, "architecture": {"string": "Ampere"}, "minor": {"int": gpu},
        "cudaComputeCapability": {"version": "8.0.0"}, "driverVersion": {"version": "580.82.7"},
        "cudaDriverVersion": {"version": "13.0.0"}, "addressingMode": {"string": "HMM"}, "numa": {"int": gpu // 4},
        "resource.kubernetes.io/pciBusID": {"string": address(gpu)},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{gpu:02x}"}}
    return {"name": f"gpu-{gpu}", "attributes": attributes, "capacity": {"memory": {"value": "40Gi"}}}


def address(gpu: int) -> str:
    """Return the PCI address of a GPU on its node."""
    return f"0000:{0x10 + gpu:02x}:00.0"


def resource(number: int, gpu: int) -> Json:
    """Return a ComposableResource with its device, as the operator and the node agent wrote it."""
    request = request_name(name_of(number), MODEL)
    body = cohdi.resource_body(f"gpu-{uid('resource', number, gpu)}", request, name_of(number), MODEL,
                               cohdi.attach_intent(machine(number), moment(number, gpu), ()))
    done = Evidence(evidence.READY, device_uid(number, gpu), uuid=serial(number, gpu), address=address(gpu),
                    numa_node=0, link=Link(16, 16, "32.0 GT/s PCIe", "32.0 GT/s PCIe"))
    for step in evidence.STEPS_UP:
        done = done.with_step(step, moment(number, gpu, after=5.0))
    more = {cohdi.NODE: done.to_json(), "cohdi.io/last-used-time": format_time(moment(number, gpu, after=10.0)),
            **({cohdi.IN_USE: "true"} if gpu < USED else {})}
    meta = _meta("resource", body["metadata"]["name"], generation=1)
    return _with_ready({
        "metadata": {**meta, **body["metadata"], "annotations": {**body["metadata"]["annotations"], **more}},
        "spec": body["spec"], "status": {"state": "Online", "device_id": serial(number, gpu), "error": "",
                                         "cdi_device_id": device_uid(number, gpu)}})


def _with_ready(obj: Json) -> Json:
    generation = int(obj["metadata"]["generation"])
    return {**obj, "status": {**obj["status"], "conditions": with_ready(
        [], generation, obj["status"], format_time(moment(obj["metadata"]["name"], after=5.0)))}}


def request(number: int) -> Json:
    """Return the ComposabilityRequest of a node."""
    name = name_of(number)
    body = cohdi.request_body(request_name(name, MODEL), name, MODEL, GPUS)
    children = {resource(number, i)["metadata"]["name"]: {"state": "Online", "device_id": serial(number, i),
                                                          "cdi_device_id": device_uid(number, i), "node_name": name}
                for i in range(GPUS)}
    return _with_ready({
        "metadata": {**_meta("request", body["metadata"]["name"], generation=2), **body["metadata"]},
        "spec": body["spec"], "status": {"state": "Running", "scalarResource": body["spec"]["resource"],
                                         "resources": children}})


def claim(number: int, gpu: int) -> Json:
    """Return a claim to which kube-scheduler has allocated a GPU of a node."""
    name = name_of(number)
    result = {"request": "gpu", "driver": DRIVER, "pool": name, "device": f"gpu-{gpu}"}
    chosen = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]
    job = job_name(number, gpu)
    return {"metadata": _meta("claim", job, "jobs", finalizers=["resource.kubernetes.io/delete-protection"],
                              annotations={"resource.kubernetes.io/pod-claim-name": "gpu"},
                              ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": job, "controller": True,
                                                "uid": uid("pod", "jobs", job), "blockOwnerDeletion": True}]),
            "spec": {"devices": {"requests": [claim_request()]}},
            "status": {"allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": chosen},
                                      "allocationTimestamp": format_time(moment(number, gpu))},
                       "reservedFor": [{"resource": "pods", "name": job, "uid": uid("pod", "jobs", job)}]}}


def claim_request(count: int = 1) -> Json:
    """Return the request of a claim."""
    return {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count,
                                       "selectors": [{"cel": {"expression": SELECTOR}}]}}


def job_name(number: int, gpu: int) -> str:
    """Return the name of a pod with a GPU."""
    return f"train-{number:04d}-{gpu}"


def pod(number: int, index: int) -> Json:
    """Return a pod of a node: first those with GPUs, then those of DaemonSets."""
    gpu = index < USED
    name, namespace = (job_name(number, index), "jobs") if gpu else (f"daemon-{index}-{number:05d}", "kube-system")
    body = pod_body(name, namespace)
    body["spec"] |= {"nodeName": name_of(number)}
    if not gpu:
        body["spec"].pop("resourceClaims")
        body["metadata"]["labels"] = {"app": f"daemon-{index}", "controller-revision-hash": f"{index:010x}"}
    body["status"] = {
        "phase": "Running", "podIP": f"10.1.{index}.{number % 250}", "hostIP": "192.168.0.1", "qosClass": "Burstable",
        "startTime": format_time(moment(name)), "podIPs": [{"ip": f"10.1.{index}.{number % 250}"}],
        "conditions": [{"type": kind, "status": "True", "lastProbeTime": None,
                        "lastTransitionTime": format_time(moment(name))}
                       for kind in ("PodScheduled", "Initialized", "Ready", "ContainersReady")],
        "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "started": True,
                               "image": "registry.example.com/team/image:v1",
                               "imageID": f"registry.example.com/team/image@sha256:{index:064x}",
                               "containerID": f"containerd://{uid('container', number, index)}",
                               "state": {"running": {"startedAt": format_time(moment(name))}}}],
        **({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]} if gpu else {})}
    return body


def pod_body(name: str, namespace: str, *gates: str) -> Json:
    """Return a pod with a claim of its name, with the API server's defaults."""
    container = {"name": "main", "image": "registry.example.com/team/image:v1", "imagePullPolicy": "IfNotPresent",
                 "args": ["--epochs", "10"], "env": [{"name": f"VARIABLE_{i}", "value": "x" * 20} for i in range(10)],
                 "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "claims": [{"name": "gpu"}]},
                 "volumeMounts": [{"name": "token", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io"}],
                 "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
    tolerations = [{"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": 300} for what in ("not-ready", "unreachable")]
    return {"metadata": _meta("pod", name, namespace, labels={"app": "train", "job": name}),
            "spec": {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
                     "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                     "serviceAccountName": "default", "serviceAccount": "default", "schedulerName": "default-scheduler",
                     "securityContext": {}, "tolerations": tolerations, "priority": 0, "enableServiceLinks": True,
                     "preemptionPolicy": "PreemptLowerPriority",
                     "volumes": [{"name": "token", "projected": {"defaultMode": 420, "sources": [
                         {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]}}],
                     **({"schedulingGates": [{"name": gate} for gate in gates]} if gates else {})},
            "status": {"phase": "Pending", "qosClass": "Burstable"}}


def held_pod(name: str, count: int = 1) -> tuple[Json, Json]:
    """Return (claim, pod): the pod is gated, and its claim requests ``count`` GPUs."""
    made = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": _meta("claim", name, "jobs"),
            "spec": {"devices": {"requests": [claim_request(count)]}}, "status": {}}
    held = pod_body(name, "jobs", pods.GATE)
    return made, {"apiVersion": "v1", "kind": "Pod", **held}


def lease(number: int) -> Json:
    """Return the Lease of a node's agent."""
    return {"metadata": _meta("lease", f"{AGENT_LEASE}{name_of(number)}", "composable-infra", labels=AGENT_LABELS),
            "spec": {"holderIdentity": name_of(number), "leaseDurationSeconds": 86400, "renewTime":
                     "2026-01-01T00:00:00.000000Z", "acquireTime": "2026-01-01T00:00:00.000000Z",
                     "leaseTransitions": 1}}


def pool_slice() -> Json:
    """Return the pool of the fabric, which has no free devices."""
    settings = Settings.from_dict({"device_info": [ROW]})
    spec = slice_spec(PoolSnapshot(settings.models[0], 1, 0), settings, (), 1, 1)
    return {"metadata": _meta("slice", "pool", labels={cohdi.MANAGED_BY: cohdi.FIELD_MANAGER}), "spec": spec}


NAMESPACE = {"metadata": _meta("namespace", "jobs", labels={pods.OPT: "true"}), "spec": {}, "status": {}}
DEFAULT = {"metadata": _meta("namespace", "default"), "spec": {}, "status": {}}
DEVICE_CLASS = {"metadata": _meta("class", DRIVER),
                "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}}


def kinds(nodes: int) -> dict[str, tuple[int, t.Callable[[int], Json]]]:
    """Return by the plural of a kind the number of objects, and a function for the n-th."""
    return {
        "nodes": (nodes, node), "resourceslices": (nodes + 1, lambda i: node_slice(i) if i < nodes else pool_slice()),
        "composabilityrequests": (nodes, request),
        "composableresources": (nodes * GPUS, lambda i: resource(*divmod(i, GPUS))),
        "resourceclaims": (nodes * USED, lambda i: claim(*divmod(i, USED))),
        "pods": (nodes * (USED + DAEMONS), lambda i: pod(*divmod(i, USED + DAEMONS))),
        "leases": (nodes, lease), "namespaces": (2, lambda i: (NAMESPACE, DEFAULT)[i]),
        "deviceclasses": (1, lambda i: DEVICE_CLASS)}
