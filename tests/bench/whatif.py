# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a what-if takes: a made-up capture with many nodes, and many pods more, at once or over
hours.

``python -m ansible_collections.composable.infra.tests.bench.whatif --nodes 500 --claims 10000``

``python -m ansible_collections.composable.infra.tests.bench.whatif --nodes 500 --claims 10000
--hours 8``

With ``--hours`` the pods come at random moments, one in five with two devices, and are replayed
once. ``--lifetime`` is in seconds. With 1,000 devices, 600 leaves most of them free in 8 hours, and
6000 makes a queue that does not end.
"""

from __future__ import annotations

import argparse
import time
import typing as t

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricSnapshot, Machine
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.answer import answer
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.capture import Capture
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.changes import changed
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.comparison import Comparison
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.figures import FIGURES
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.simulation import (
    read_question,
    simulated,
)

Json = dict[str, t.Any]
MODEL, DRIVER = "A100 40G", "gpu.nvidia.com"
ROW = {"index": 0, "cdi-model-name": MODEL, "k8s-device-name": "a100", "driver-name": DRIVER,
       "dra-attributes": {"productName": "NVIDIA A100"}}
NOW = 1_800_000_000.0


def meta(name: str, **more: t.Any) -> Json:
    """Return the metadata of an object."""
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z",
            **more}


def node(name: str, room: str) -> Json:
    """Return a node that is the machine of its name. ``room``: number of its CPUs."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta(name, labels={"kubernetes.io/hostname": name}),
            "spec": {"providerID": f"fsas-cdi://machine-{name}"},
            "status": {"allocatable": {"cpu": room, "memory": "256Gi", "pods": "110"},
                       "conditions": [{"type": "Ready", "status": "True"}]}}


def made_up(nodes: int, free: int) -> Capture:
    """Return a capture of ``nodes`` nodes without devices, on one fabric with ``free`` free
    devices.
    """
    names = [f"node-{number}" for number in range(nodes)]
    machines = {f"machine-{name}": Machine(f"machine-{name}", name, 1) for name in names}
    namespace = {"apiVersion": "v1", "kind": "Namespace",
                 "metadata": meta("default", labels={"composable.infra/gated": "true"})}
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    classes = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": meta(DRIVER),
               "spec": {"selectors": [selector]}}
    return Capture(NOW, {"device_info": [ROW], "unserved": "wait"}, "fm", 180.0, "ssh", {}, {
        "nodes": tuple(node(name, "64") for name in names), "namespaces": (namespace,), "deviceclasses": (classes,)},
        FabricSnapshot(machines, {(MODEL, 1): free}, NOW))


def seconds(nodes: int, claims: int, free: int) -> tuple[float, list[str]]:
    """Return the duration of the question, before and after together, and the table."""
    capture, began = made_up(nodes, free), time.perf_counter()
    after = changed(capture, [{"change": "add_pods", "model": MODEL, "count": claims, "cpu": "1"}])
    table = Comparison(answer(capture), answer(after)).table()
    return time.perf_counter() - began, table


def replay_seconds(nodes: int, claims: int, free: int, hours: float, lifetime: float) -> tuple[float, list[str]]:
    """Return the CPU seconds of one replay, and its figures."""
    one = {"model": MODEL, "cpu": "1", "per_hour": 0.8 * claims / hours, "lifetime": lifetime}
    two = {**one, "per_hour": 0.2 * claims / hours, "devices_each": 2}
    question = read_question({"hours": hours, "seeds": 1, "load": [one, two]})
    began = time.process_time()
    found = simulated(made_up(nodes, free), question)
    took = time.process_time() - began
    return took, [f"{words}: {found.spreads[name]}" for name, words in FIGURES.items()]


def main() -> None:
    """Print the sums and the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("nodes", 500), ("claims", 10_000), ("free", 4_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, seconds_or_hours in (("hours", 0.0), ("lifetime", 600.0)):
        parser.add_argument(f"--{name}", type=float, default=seconds_or_hours)
    given = parser.parse_args()
    if given.hours:
        took, told = replay_seconds(given.nodes, given.claims, given.free, given.hours, given.lifetime)
        print("\n".join(told))
        print(f"{given.claims} claims in {given.hours:g} h on {given.nodes} nodes: {took:.1f} CPU seconds")
        return
    took, table = seconds(given.nodes, given.claims, given.free)
    print("\n".join(table[:table.index("")] if "" in table else table))
    print(f"{given.claims} claims on {given.nodes} nodes: {took:.1f} s")


if __name__ == "__main__":
    main()
