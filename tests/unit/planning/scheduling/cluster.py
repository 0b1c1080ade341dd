# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builders of clusters with gated pods, so that a test shows only what it is about.

Nodes are on fabric 1 with 8 cpus, 16Gi and 110 pods unless said otherwise; a pod asks for one A100 by a claim of its
own; ages are seconds before ``NOW``.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods as pods_of
from ansible_collections.composable.infra.plugins.module_utils.model.node import Node
from ansible_collections.composable.infra.plugins.module_utils.model.pod import Pod
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.planning.fairness import Shares
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import PodRef
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.plan import plan_placements
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import (
    GATE,
    GatedPod,
    IdleDevice,
    NodeFacts,
    Placement,
    PodGroup,
    Release,
    SchedulingPlan,
    SchedulingSnapshot,
    Stock,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import DeviceModel
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER, NOW, settings

Json = dict[str, t.Any]
Raw = Mapping[str, t.Any]
CLASS = "gpu.nvidia.com"
PRODUCT = f'device.attributes["{DRIVER}"].productName == "NVIDIA {{}}"'


@dataclass(frozen=True)
class Rules:
    """The settings that the planner reads."""

    models: tuple[DeviceModel, ...] = settings().models
    unserved: str = "release"
    allocation_policy: str = "samenode"
    device_classes: tuple[str, ...] = (CLASS,)
    hold_timeout: float = 60.0
    shares: Shares = field(default_factory=Shares)


RULES, WAIT = Rules(), Rules(unserved="wait")


def device_class(*expressions: str, name: str = CLASS, **more: t.Any) -> Json:
    """A DeviceClass; without expressions it selects by driver."""
    wanted = expressions or (f"device.driver == '{DRIVER}'",)
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": e}} for e in wanted], **more}}


def exactly(model: str | None = A100, count: int = 1, *expressions: str, **more: t.Any) -> Json:
    """What a request asks for: ``count`` devices of a model, by productName; None: of any model."""
    listed = [*([PRODUCT.format(model)] if model else []), *expressions]
    return {"deviceClassName": CLASS, "count": count, "allocationMode": "ExactCount",
            "selectors": [{"cel": {"expression": e}} for e in listed], **more}


def claim(name: str, *asks: Json | list[Json], **more: t.Any) -> Json:
    """A claim with one request per ask; a list is a prioritised one."""
    requests = [{"name": f"r{i}", **({"firstAvailable": [{"name": f"s{j}", **a} for j, a in enumerate(ask)]}
                                     if isinstance(ask, list) else {"exactly": ask})} for i, ask in enumerate(asks)]
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"devices": {"requests": requests, **more}}, "status": {}}


def raw_pod(name: str, *, labels: dict[str, str] | None = None, namespace: str = "default", cpu: str = "1",
            **spec: t.Any) -> Json:
    """A pod of one container."""
    requests = {"cpu": cpu} if cpu else {}
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"pod-{name}", "labels": labels or {}},
            "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}], **spec}}


def gated(name: str, *asks: Json | list[Json], age: float = 5.0, group: tuple[str, int] | None = None, placed: int = 0,
          claims: dict[str, Json | None] | None = None, **more: t.Any) -> GatedPod:
    """A pod that our gate holds, with a claim of one request per ask (default: one A100)."""
    own = claims if claims is not None else {"gpu": claim(f"{name}-gpu", *(asks or (exactly(),)))}
    spec = {"schedulingGates": [{"name": GATE}],
            "resourceClaims": [{"name": n, "resourceClaimTemplateName": "any"} for n in own], **more}
    return GatedPod(raw_pod(name, **spec), own, NOW - age, PodGroup(*group, placed) if group else None)


def device(number: int = 0, model: str = A100, **more: t.Any) -> Json:
    """An entry of a node's ResourceSlice."""
    return {"name": f"gpu-{number}", "attributes": {"productName": {"string": f"NVIDIA {model}"},
                                                    "uuid": {"string": f"GPU-{number}"}}, **more}


def idle(n: int = 1, model: str = A100, node: str = "", **more: t.Any) -> tuple[IdleDevice, ...]:
    """Idle devices of a model, named after the node."""
    return tuple(IdleDevice(f"{node}{model[:1].lower()}{i}", device(i, model, **more)) for i in range(n))


def node(name: str, *pods: Raw, stock: dict[str, Stock] | None = None, labels: dict[str, str] | None = None,
         allocatable: dict[str, str] | None = None, taints: list[Json] | None = None, unschedulable: bool = False,
         **more: t.Any) -> NodeFacts:
    """A node with a machine on fabric 1."""
    offered = {"cpu": "8", "memory": "16Gi", "pods": "110", **(allocatable or {})}
    said = Node(name, labels={"kubernetes.io/hostname": name, **(labels or {})}, taints=tuple(taints or ()),
                unschedulable=unschedulable, allocatable=offered)
    return NodeFacts(**{"name": name, "node": said, "pods": tuple(map(bound, pods)), "machine": f"machine-{name}",
                        "fabric": 1, "stock": stock or {}, **more})


def bound(raw: Raw) -> Pod:
    """A raw pod as it is on a node."""
    return pods_of.read({**raw, "spec": {**raw["spec"], "nodeName": "any"}})


def make_snapshot(*parts: NodeFacts | GatedPod | Placement, free: int | dict[tuple[str, int], int] = 0,
                  samples: Mapping[t.Any, tuple[Raw, ...]] | None = None, **more: t.Any) -> SchedulingSnapshot:
    """Nodes, pods and placements; ``free``: of A100 on fabric 1, or all counts; ``samples``: by model, which DRIVER
    shows, or by model and driver."""
    shown = {(key, DRIVER) if isinstance(key, str) else key: found for key, found in (samples or {}).items()}
    return SchedulingSnapshot(**{
        "now": NOW, "nodes": {p.name: p for p in parts if isinstance(p, NodeFacts)},
        "waiting": tuple(p for p in parts if isinstance(p, GatedPod)),
        "placements": tuple(p for p in parts if isinstance(p, Placement)),
        "free": free if isinstance(free, dict) else {(A100, 1): free}, "namespaces": {"default": {"team": "a"}},
        "classes": {CLASS: device_class()}, "samples": shown, **more})


def plan(*parts: NodeFacts | GatedPod | Placement, rules: Rules = RULES, **more: t.Any) -> SchedulingPlan:
    """The plan for a view made of parts."""
    return plan_placements(make_snapshot(*parts, **more), rules)


def nodes_by_pod(found: SchedulingPlan) -> dict[str, str]:
    """Node by pod."""
    return {b.pod.name: b.node for b in found.placements}


def placement(found: SchedulingPlan, pod: str) -> Placement:
    """The placement of a pod."""
    (one,) = [b for b in found.placements if b.pod.name == pod]
    return one


def release(found: SchedulingPlan, pod: str) -> Release:
    """The release of a pod."""
    (one,) = [r for r in found.releases if r.pod.name == pod]
    return one


def wait_reason(found: SchedulingPlan, pod: str) -> WaitReason:
    """Why the only claim of a pod waits."""
    (one,) = [v for v in found.wait_reasons if v.evidence.get("pod") == pod]
    return one


def assumed(pod: GatedPod, on: str, models: dict[str, int], **more: t.Any) -> Placement:
    """A placement that an earlier plan made: all of the first claim."""
    uid = next(c["metadata"]["uid"] for c in pod.claims.values() if c)
    return Placement(**{"pod": pod.ref, "node": on, "needs": {uid: models}, "since": NOW - 1, "raw": pod.raw, **more})


def models_of(found: Iterable[Placement]) -> Counter[str]:
    """Devices per model over placements."""
    return Counter({m: n for b in found for models in b.needs.values() for m, n in models.items()})


def ref(name: str) -> PodRef:
    """A pod of the default namespace."""
    return PodRef("default", name, f"pod-{name}")
