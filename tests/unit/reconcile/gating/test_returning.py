# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A device whose pod is about to leave is waited for as one that is on its way back."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.returning import ending
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.held_pods import ask, gate_names, reserved

Json = dict[str, t.Any]


@pytest.fixture
def taken(held: Bench) -> Bench:
    """All devices of the fabric are used by the pod ``old``."""
    held.fabric.free_count = 0
    held.look()
    held.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Online"), shown("GPU-d1"),
             objects.claim("old", objects.local_result()), old())
    return held


def shown(*uuids: str) -> Json:
    found = objects.local_slice(*uuids)
    for device in found["spec"]["devices"]:
        device["attributes"]["productName"] = {"string": "NVIDIA A100 40G"}
    return found


def old(leaves_in: float | None = None) -> Json:
    pod = objects.pod("old", phase="Running")
    if leaves_in is not None:
        pod["metadata"]["deletionTimestamp"] = format_time(time.time() + leaves_in)
    return pod


def ends(bench: Bench) -> dict[tuple[str, int], int]:
    assert bench.state.snapshot
    return dict(ending(bench.state, bench.state.snapshot))


def test_pod_is_let_go_where_the_user_stays(taken: Bench) -> None:
    ask(taken)
    taken.reconcile(GatesKey())
    assert gate_names(taken) == []


def test_pod_waits_for_a_device_whose_pod_leaves(taken: Bench) -> None:
    taken.put(old(leaves_in=30))
    ask(taken)
    taken.reconcile(GatesKey())
    assert taken.told("GateReleased") == [] == reserved(taken)
    assert "on their way back" in taken.gating.wait_reasons[0].waits_for


def test_pod_is_let_go_where_it_leaves_after_the_time_that_is_waited(taken: Bench) -> None:
    taken.put(old(leaves_in=3600))
    ask(taken)
    taken.reconcile(GatesKey())
    assert gate_names(taken) == []


def test_each_device_of_the_claim_counts_and_no_other(taken: Bench) -> None:
    taken.put(old(leaves_in=1))
    taken.put(objects.resource("gpu-b", device="d2", serial="GPU-d2", state="Online"),
              objects.resource("gpu-c", device="d3", serial="GPU-d3", state="Online"),
              shown("GPU-d1", "GPU-d2", "GPU-d3"),
              objects.claim("old", objects.local_result(), objects.local_result("gpu-1")))
    assert ends(taken) == {(A100, 1): 2}


def test_device_that_is_being_given_up_is_not_counted_twice(taken: Bench) -> None:
    taken.put(old(leaves_in=1))
    taken.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Detaching", deleted=True))
    assert ends(taken) == {}


def test_device_of_a_node_without_a_machine_comes_back_to_no_fabric(taken: Bench) -> None:
    taken.put(old(leaves_in=1))
    taken.put(objects.node("node-0", None))
    assert ends(taken) == {}
