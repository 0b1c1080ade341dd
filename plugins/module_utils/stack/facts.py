# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Extract the values that checks of a GPU stack need from raw Kubernetes objects."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import re
import typing as t
from collections.abc import Iterable, Mapping

from ..kube.coordination.agent_leases import AGENT_LEASE
from ..kube.objects import nodes
from ..kube.times import parse_time
from ..model.value import Json

PROVIDER_PREFIX = "fsas-cdi://"
_MACHINE = "machine.openshift.io/machine"
_HOST = "metal3.io/BareMetalHost"
_CDI_MACHINE = "cluster-manager.cdi.io/machine"
# The key of the configuration, and its former name.
_NODE_OPERATIONS = re.compile(r"""^node_(?:operations|hands):\s*["']?(\w+)""", re.MULTILINE)
_GATE = re.compile(r'^kubernetes_feature_enabled\{name="((?:DRA|DynamicResource)\w*)"[^}]*\}\s+([01])', re.MULTILINE)


def gates(metrics: str) -> dict[str, bool]:
    """Return the feature gates in the metrics of the API server."""
    return {name: value == "1" for name, value in _GATE.findall(metrics)}


def annotations_of(item: Json) -> dict[str, str]:
    """Return the annotations of an object."""
    return t.cast("dict[str, str]", item["metadata"].get("annotations") or {})


def place(item: Json) -> str:
    """Return `namespace/name` of an object."""
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"


def machines_of_hosts(hosts: Iterable[Json], machines: Iterable[Json]) -> dict[str, str]:
    """Return UUIDs on the fabric by Machine (`namespace/name`), from its BareMetalHost."""
    uuids = {place(host): annotations_of(host).get(_CDI_MACHINE, "") for host in hosts}
    return {place(machine): uuids.get(annotations_of(machine).get(_HOST, ""), "") for machine in machines}


def node(item: Json, machines: Mapping[str, str]) -> Json:
    """Return a node with its machine on the fabric, its system and its labels.

    The machine is from the providerID or the BareMetalHost.
    """
    provider = str((item.get("spec") or {}).get("providerID") or "")
    by_host = machines.get(annotations_of(item).get(_MACHINE, ""), "")
    status = item.get("status") or {}
    info = status.get("nodeInfo") or {}
    labels = item["metadata"].get("labels") or {}
    return {
        "name": item["metadata"]["name"],
        "ready": nodes.ready(item),
        "provider_id": provider,
        "machine": provider.removeprefix(PROVIDER_PREFIX) if provider.startswith(PROVIDER_PREFIX) else by_host,
        "kubelet": info.get("kubeletVersion", ""),
        "os_image": info.get("osImage", ""),
        "labels": labels,
        "allocatable": _gpus(status),
        "gpu_present": labels.get("nvidia.com/gpu.present") == "true",
        "plugin_config": labels.get("nvidia.com/device-plugin.config", ""),
        "mig": labels.get("nvidia.com/mig.config", ""),
        "mig_state": labels.get("nvidia.com/mig.config.state", ""),
    }


def _gpus(status: Json) -> dict[str, int]:
    counts = {k: str(v) for k, v in (status.get("allocatable") or {}).items() if k.startswith("nvidia.com/")}
    return {name: int(text) for name, text in counts.items() if text.isdecimal()}


def daemon_set(item: Json) -> Json:
    """Return whether the pods of a DaemonSet are ready, and the labels of its pods."""
    status, template = item.get("status") or {}, item["spec"].get("template") or {}
    return {
        "namespace": item["metadata"]["namespace"],
        "name": item["metadata"]["name"],
        "desired": status.get("desiredNumberScheduled", 0),
        "ready": status.get("numberReady", 0),
        "current": status.get("observedGeneration", 0) == item["metadata"].get("generation", 0),
        "labels": (template.get("metadata") or {}).get("labels") or {},
    }


def controllers(item: Json) -> Json:
    """Return who does node operations according to the controllers' ConfigMap, or empty."""
    found = _NODE_OPERATIONS.search(str((item.get("data") or {}).get("config.yml", "")))
    return {"namespace": item["metadata"]["namespace"], "node_operations": found.group(1) if found else ""}


def agent(item: Json, now: float) -> Json:
    """Return the node of a node agent's Lease, and the seconds since its renewal.

    ``now`` is in seconds since the epoch on the API server's clock. ``alive`` means that the Lease
    has a holder and is not expired.
    """
    spec = item.get("spec") or {}
    seconds = max(0.0, now - parse_time(spec.get("renewTime")))
    held = bool(spec.get("holderIdentity"))
    return {
        "node": item["metadata"]["name"].removeprefix(AGENT_LEASE),
        "held": held,
        "seconds": seconds,
        "alive": held and seconds < float(spec.get("leaseDurationSeconds") or 0),
    }


def with_state(item: Json) -> Json:
    """Return name and state of a ClusterPolicy or GPUCluster."""
    return {"name": item["metadata"]["name"], "state": (item.get("status") or {}).get("state", "")}


def devices(slices: Iterable[Json]) -> list[Json]:
    """Return every device that a node publishes: driver, node, name, uuid and taints."""
    return [
        {
            "driver": item["spec"]["driver"],
            "node": item["spec"]["nodeName"],
            "device": device["name"],
            "uuid": ((device.get("attributes") or {}).get("uuid") or {}).get("string", ""),
            "taints": [str(taint.get("key")) for taint in device.get("taints") or []],
        }
        for item in slices
        if item["spec"].get("nodeName")
        for device in item["spec"].get("devices") or []
    ]


def claim(item: Json) -> Json:
    """Return a ResourceClaim with its allocated devices."""
    status = item.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    return {
        "namespace": item["metadata"]["namespace"],
        "name": item["metadata"]["name"],
        "reserved": len(status.get("reservedFor") or []),
        "devices": [{"driver": r["driver"], "pool": r["pool"], "device": r["device"]} for r in results],
    }


def claims_of(claims: Iterable[Json], driver: str, pools: Iterable[str] | None = None) -> list[str]:
    """Return `namespace/name` of claims with devices of the driver, in ``pools`` or any pool."""
    wanted = None if pools is None else set(pools)
    return [
        f"{c['namespace']}/{c['name']}"
        for c in claims
        if any(d["driver"] == driver and (wanted is None or d["pool"] in wanted) for d in c["devices"])
    ]


def selectors(spec: Json | None) -> list[str]:
    """Return the CEL expressions of a DeviceClass or of a request."""
    return [str((each.get("cel") or {}).get("expression") or "") for each in (spec or {}).get("selectors") or []]


def requests(item: Json) -> list[Json]:
    """Return the device requests of a ResourceClaim or ResourceClaimTemplate.

    Each has object, class and selectors.
    """
    spec = item.get("spec") or {}
    spec = spec.get("spec") or spec
    wanted = [each for request in (spec.get("devices") or {}).get("requests") or []
              for each in [request.get("exactly"), *(request.get("firstAvailable") or [])] if each]
    return [{"object": place(item), "class": str(each.get("deviceClassName") or ""), "selectors": selectors(each)}
            for each in wanted]


def composable(item: Json) -> Json:
    """Return name, node and state of a ComposableResource."""
    return {
        "name": item["metadata"]["name"],
        "node": (item.get("spec") or {}).get("target_node", ""),
        "state": (item.get("status") or {}).get("state", ""),
    }


def releases(secrets: Iterable[Json]) -> list[Json]:
    """Return the newest revision of each Helm release, from Helm's Secrets."""
    newest: dict[tuple[str, str], Json] = {}
    for secret in secrets:
        labels = secret["metadata"].get("labels") or {}
        key = (str(secret["metadata"]["namespace"]), str(labels.get("name", "")))
        if key not in newest or _revision(secret) > _revision(newest[key]):
            newest[key] = secret
    return [_release(namespace, name, secret) for (namespace, name), secret in sorted(newest.items())]


def _revision(secret: Json) -> int:
    text = str((secret["metadata"].get("labels") or {}).get("version", ""))
    return int(text) if text.isdecimal() else 0


def _release(namespace: str, name: str, secret: Json) -> Json:
    chart = _chart(str((secret.get("data") or {}).get("release", "")))
    status = str((secret["metadata"].get("labels") or {}).get("status", ""))
    return {
        "namespace": namespace,
        "name": name,
        "status": status,
        "chart": str(chart.get("name", "")),
        "version": str(chart.get("version", "")),
    }


def _chart(data: str) -> Json:
    """Return the chart's metadata.

    Helm stores gzipped JSON in base64, which the Secret encodes again.
    """
    try:
        packed = base64.b64decode(base64.b64decode(data, validate=True), validate=True)
        body = json.loads(gzip.decompress(packed) if packed.startswith(b"\x1f\x8b") else packed)
        return t.cast("Json", body["chart"]["metadata"])
    except (binascii.Error, OSError, EOFError, ValueError, LookupError, TypeError):
        return {}
