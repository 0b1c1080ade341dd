# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two nodes in any state of their lives, for tests that make random choices."""

from __future__ import annotations

import random

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    PHASES,
    PREPARING,
    REMOVED,
    Evidence,
)
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

NODES = ("node-0", "node-1")


def chance(rng: random.Random, one_in: int) -> bool:
    """True once in so many times."""
    return rng.randrange(one_in) == 0


def fill(bench: Bench, rng: random.Random) -> None:
    """Two nodes with claims, requests and devices in any state of their lives."""
    bench.put(objects.node("node-1", "machine-1"))
    for number, node in enumerate(NODES):
        shown = []
        bench.put(objects.request(f"request-{number}", size=rng.randrange(4), node=node))
        for index in range(rng.randrange(4)):
            name = f"gpu-{number}-{index}"
            there, deleted = not chance(rng, 3), chance(rng, 3)
            if there:
                bench.fabric.attached[f"d-{name}"] = device(f"d-{name}")
                shown += [f"GPU-{name}"] if not chance(rng, 3) else []
            owner = f"uid-claim-{number}-{rng.randrange(3)}"
            notes = {"HELD_FOR": cohdi.hold(owner, 1000.0)} if chance(rng, 3) else {}
            if there and not chance(rng, 3):
                trouble = Evidence(PREPARING, f"d-{name}").with_trouble("NotOnBus", "not on the bus", 1.0)
                known = [trouble, *(Evidence(phase, f"d-{name}", release="now") for phase in PHASES)]
                # Of those that leave, most were asked to and half are let go already.
                known += [Evidence(REMOVED, f"d-{name}", release="now")] * (3 if deleted else 0)
                notes |= {"NODE": rng.choice(known).to_json()}
            notes |= {"RELEASE": "now"} if deleted and not chance(rng, 4) else {}
            bench.put(objects.resource(
                name, node=node, request=f"request-{number}" if not chance(rng, 4) else "gone",
                device=f"d-{name}" if there else "", serial=f"GPU-{name}" if there else "",
                asked=rng.choice((None, 2.0, 500.0)) if not there else 500.0, deleted=deleted,
                created=rng.choice((1.0, 5000.0)),
                state=rng.choice(("Detaching", "Deleting") if deleted else ("Attaching", "Online")), **notes))
        bench.put(objects.local_slice(*shown, node=node))
        for index in range(rng.randrange(4)):
            result = rng.choice((objects.pool_result(f"a100-{index}"), objects.pool_result("x", pool="strange-fabric1"),
                                 objects.local_result(f"gpu-{index}", node)))
            told = [objects.told(result, objects.RESCHEDULE)] if result.get("pool") != node and chance(rng, 3) else []
            bench.put(objects.claim(f"claim-{number}-{index}", result, node=node, devices=told))
    if chance(rng, 3):
        bench.fabric.attached["stranger"] = device("stranger")
    bench.look()
