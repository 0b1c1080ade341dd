# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the planner of held pods is told of nodes, some of which have moved to another DRA driver."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.node_facts import KnownNodes
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.snapshot import scheduling_snapshot
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER, row
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench

OWN, LABEL = "own.example", "composable.infra/dra-driver"
STAYS, MOVED = "node-0", "node-1"


def shown(node: str, driver: str) -> dict[str, t.Any]:
    """The only device of a node, by a driver."""
    raw = objects.local_slice(f"GPU-{node}", node=node)
    raw["metadata"] |= {"name": f"{node}-{driver}", "uid": f"{node}-{driver}"}
    raw["spec"]["driver"] = driver
    return raw


def labelled(node: str, driver: str) -> dict[str, t.Any]:
    """A node with this driver in its label."""
    raw = objects.node(node, f"machine-{node[-1]}")
    raw["metadata"]["labels"] = {**raw["metadata"].get("labels", {}), LABEL: driver}
    return raw


@pytest.fixture
def two() -> Iterator[Bench]:
    """Two nodes with an idle device each, the second of which the other driver shows."""
    bench = Bench(device_info=[row(0, A100, "a100", **{"other-driver-names": [OWN]})])
    bench.build()
    for node, driver in ((STAYS, DRIVER), (MOVED, OWN)):
        bench.put(shown(node, driver), objects.resource(
            f"r-{node}", device=f"d-{node}", serial=f"GPU-{node}", state="Online", node=node))
    bench.put(objects.node(STAYS, "machine-0"), labelled(MOVED, OWN))
    yield bench
    bench.close()


def test_each_node_and_device_has_its_driver_and_so_has_what_is_known_of_devices(two: Bench) -> None:
    found = scheduling_snapshot(two.state, ())
    assert {name: facts.driver for name, facts in found.nodes.items()} == {STAYS: "", MOVED: OWN}
    idle = {name: [device.driver for device in facts.stock[A100].idle] for name, facts in found.nodes.items()}
    assert idle == {STAYS: [DRIVER], MOVED: [OWN]}
    assert {key: len(entries) for key, entries in found.samples.items()} == {(A100, DRIVER): 1, (A100, OWN): 1}


def test_moved_node_is_read_anew(two: Bench) -> None:
    known = KnownNodes()
    scheduling_snapshot(two.state, (), known)
    two.put(labelled(STAYS, OWN))
    assert scheduling_snapshot(two.state, (), known).nodes[STAYS].driver == OWN
    two.put(shown(STAYS, OWN))
    both = scheduling_snapshot(two.state, (), known).nodes[STAYS].stock[A100]
    assert (both.idle, both.coming) == ((), 1), "while two drivers show it, it is nobody's"
    two.drop(shown(STAYS, DRIVER))
    (device,) = scheduling_snapshot(two.state, (), known).nodes[STAYS].stock[A100].idle
    assert device.driver == OWN
