# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of held pods share: the pods, their claims, and what the bench shows of them."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS, SLICES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.reconcile.controller import Change
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey, NominationsKey
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench

Json = dict[str, t.Any]
CEL = f'device.attributes["{DRIVER}"].productName == "NVIDIA {A100}"'


def node(name: str = "node-0", machine: str | None = "machine-0") -> Json:
    """A node with room for pods."""
    return {**objects.node(name, machine), "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}


def opted_in(namespace: str) -> Json:
    """Metadata of a namespace whose pods may be held."""
    return {**objects.meta(namespace), "labels": {pods.OPT: "true"}}


def claim(name: str, count: int = 1, cel: str = CEL) -> Json:
    """A claim for A100s that nobody has allocated."""
    exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count,
               "selectors": [{"cel": {"expression": cel}}]}
    return {**objects.claim(name), "status": {}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}


def pod(name: str, *gates_: str, group: str = "", size: int = 0) -> Json:
    """A held pod that refers to the claim of its name."""
    raw = objects.pod(name)
    raw["spec"] |= {"schedulingGates": [{"name": g} for g in gates_ or (pods.GATE,)], "containers": [{"name": "c"}],
                    "schedulerName": "default-scheduler"}
    if group:
        raw["metadata"] |= {"labels": {"composable.infra/group": group},
                            "annotations": {pods.GROUP_SIZE: str(size)}}
    return raw


def young(name: str) -> Json:
    """A held pod that was created just now."""
    raw = pod(name)
    raw["metadata"]["creationTimestamp"] = format_time(time.time())
    return raw


def ask(bench: Bench, name: str = "train", count: int = 1, **more: t.Any) -> None:
    """A claim and its pod."""
    bench.put(claim(name, count), pod(name, **more))


def gate_names(bench: Bench, name: str = "train") -> list[str]:
    """Gates that the pod has at the API server."""
    return [g["name"] for g in bench.api.one(PODS, name, "default")["spec"].get("schedulingGates") or []]


def reserved(bench: Bench) -> list[tuple[str, str]]:
    """(pod, node) of all bookings."""
    return sorted((s.placement.pod.name, s.placement.node) for s in bench.state.reservations.all())


def announce(bench: Bench) -> None:
    """The node shows every attached device."""
    bench.put(objects.local_slice(*[str(d.serial) for d in bench.fabric.attached.values()]))


def nominated(bench: Bench, name: str = "train") -> str:
    """The node that the pod is nominated to at the API server."""
    return pods.nominated(bench.api.one(PODS, name, "default"))


def choose(bench: Bench) -> None:
    """Choose nodes, and wait until the pods are nominated."""
    bench.reconcile(GatesKey())
    bench.reconcile(NominationsKey())
    bench.wait(lambda: all(nominated(bench, name) == node for name, node in reserved(bench)), "the nominations")


def serve(bench: Bench) -> None:
    """Choose, attach, announce, open."""
    choose(bench)
    bench.run(1)
    announce(bench)
    bench.run(1)


def allocated(name: str, device: str) -> Json:
    """The claim of a pod that the scheduler has given a device of the node."""
    return {**objects.claim(name, objects.local_result(device)), "spec": claim(name)["spec"]}


def kept_for(bench: Bench, name: str) -> str:
    """Serial number of the one device that is kept for the claim of a pod."""
    (kept,) = bench.state.holds.kept_for(f"uid-{name}")
    return kept.serial


def bind(bench: Bench, name: str) -> None:
    """The scheduler has placed the pod where it was sent."""
    raw = bench.api.one(PODS, name, "default")
    new = {**raw, "spec": {**raw["spec"], "nodeName": "node-0"}}
    bench.put(new)
    bench.gating.pod_changed(Change("MODIFIED", PODS, pods.read(new), pods.read(raw)))


def pool(bench: Bench) -> int:
    """Devices that the pool shows."""
    found = [s for s in bench.api.of(SLICES) if s["spec"]["pool"]["name"] == "a100-fabric1"]
    return sum(len(s["spec"]["devices"]) for s in found)
