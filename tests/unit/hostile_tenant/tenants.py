# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of the two tenants."""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey, NominationsKey
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import claim, pod

Json = dict[str, t.Any]
RED = "red"


def reds(raw: Json, **annotations: str) -> Json:
    """The same object in red's namespace."""
    meta = {**raw["metadata"], "namespace": RED}
    if annotations:
        meta["annotations"] = {**meta.get("annotations", {}), **annotations}
    return {**raw, "metadata": meta}


def red_asks(bench: Bench, name: str = "evil", count: int = 1, **more: t.Any) -> None:
    """A claim and a held pod of red's."""
    bench.put(reds(claim(name, count)), reds(pod(name, **more)))


def gates_of_red(bench: Bench, name: str = "evil") -> list[str]:
    """Gates that a pod of red's has at the API server."""
    return [g["name"] for g in bench.api.one(PODS, name, RED)["spec"].get("schedulingGates") or []]


def serve_all(bench: Bench) -> None:
    """Choose, attach, announce, open, for the pods of both tenants."""
    bench.reconcile(GatesKey())
    bench.reconcile(NominationsKey())
    bench.wait(lambda: all(pods.nominated(bench.api.one(PODS, p.pod.name, p.pod.namespace)) == p.node
                           for p in (each.placement for each in bench.state.reservations.all())), "the nominations")
    bench.run(1)
    show(bench)
    bench.run(1)


def show(bench: Bench) -> None:
    """The node shows every attached device, with the name of its product."""
    raw = objects.local_slice(*[str(d.serial) for d in bench.fabric.attached.values()])
    for shown in raw["spec"]["devices"]:
        shown["attributes"]["productName"] = {"string": f"NVIDIA {A100}"}
    bench.put(raw)


def opened(bench: Bench, name: str = "train", namespace: str = "default") -> bool:
    """Whether the pod's gate was opened, since its devices are there."""
    return any(e["reason"] == "GateOpened" and e["about"] == f"{namespace}/{name}" for e in bench.reporter.history)
