# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_agreement.py` and others share."""

from __future__ import annotations

import random

from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import DRIVER
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.random_nodes import fill

Quiet = tuple[ControllerManager, Bench]
RUNS, MOST_RUNS = 12, 1000
CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": objects.meta(DRIVER),
         "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}}


def crowd(bench: Bench, rng: random.Random) -> None:
    """Nodes in any state, and pods that our gate holds or that wait for the scheduler."""
    fill(bench, rng)
    bench.fabric.others, bench.fabric.free_count = ("machine-1",), rng.randrange(4)
    bench.put(gated_pods.node(), gated_pods.node("node-1", "machine-1"), CLASS,
              {"apiVersion": "v1", "kind": "Namespace", "metadata": gated_pods.opted_in("default")})
    for number in range(rng.randrange(5)):
        name, group = f"pod-{number}", rng.choice(("", "", "g"))
        bench.put(gated_pods.claim(name, rng.randrange(1, 4)), gated_pods.pod(name, group=group, size=2))
    if rng.randrange(2):
        bench.put(gated_pods.claim("free"), objects.pod("free"))


def clear(bench: Bench) -> None:
    """Nothing is left but nodes."""
    state = bench.state
    for store in (state.claims, state.resources, state.requests, state.slices, state.pods):
        for raw in list(store.list()):
            bench.drop(raw)
    bench.fabric.attached.clear()
