# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices kept for claims while the scheduler takes any that fits: nobody's device may seem to be nobody's."""

from __future__ import annotations

import time

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.device_holds import NONE, DeviceHolds
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.tests.unit.planning.builders import H100, settings
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.state.device_holds_support import (
    kept,
    names,
    visible,
)


@pytest.fixture
def crossed(bench: Bench) -> Bench:
    """Two devices that are kept for two claims, of which the first has taken the second's."""
    visible(bench, "a", "b")
    bench.put(objects.claim("one"), objects.claim("two"))
    bench.state.holds.keep("a", "uid-one")
    bench.state.holds.keep("b", "uid-two")
    assert kept(bench) == {"a": "one", "b": "two"}
    bench.put(objects.claim("one", objects.local_result("gpu-1")))
    return bench


def test_who_took_anothers_device_leaves_its_own_to_it(crossed: Bench) -> None:
    assert kept(crossed) == {"a": "two"}
    crossed.put(objects.claim("two", objects.local_result("gpu-0")))
    assert kept(crossed) == {}


def test_what_was_left_stays_left_at_the_next_look(crossed: Bench) -> None:
    for _unused in range(3):
        assert kept(crossed) == {"a": "two"}


def test_claim_that_is_to_be_allocated_anew_keeps_what_is_kept_for_it(bench: Bench) -> None:
    """The scheduler gave it a device of the node, which is kept for another, and one of the pool."""
    visible(bench, "a", "b")
    bench.put(objects.claim("one"))
    bench.state.holds.keep("a", "uid-one")
    mixed = (objects.local_result("gpu-0"), objects.pool_result())
    bench.put(objects.claim("two", *mixed, devices=[objects.told(mixed[1], objects.RESCHEDULE)]))
    bench.state.holds.keep("b", "uid-two")
    assert kept(bench) == {"b": "two"}
    bench.put(objects.claim("two", objects.local_result("gpu-1")))
    assert kept(bench) == {"a": "one"}


def test_claim_that_is_to_be_allocated_anew_keeps_what_it_used_beside_the_pool(bench: Bench) -> None:
    """Else it is returned before the scheduler looks again, and the claim never has all its devices at a time."""
    visible(bench, "a")
    mixed = (objects.local_result("gpu-0"), objects.pool_result())
    bench.put(objects.claim("one", *mixed, devices=[objects.told(mixed[1], objects.RESCHEDULE)]))
    kept(bench)
    bench.put(objects.claim("one"))
    assert kept(bench) == {"a": "one"}
    bench.put(objects.claim("one", objects.local_result("gpu-0")))
    assert kept(bench) == {}


@pytest.mark.parametrize("before", [False, True], ids=["nobody's", "kept for it before it was given up"])
def test_claim_that_is_to_be_allocated_anew_does_not_keep_what_is_given_up(bench: Bench, before: bool) -> None:
    """The scheduler is kept off a device that is given up, unless it was kept for the claim by then."""
    visible(bench, "a")
    mixed = (objects.local_result("gpu-0"), objects.pool_result())
    if before:
        bench.state.holds.keep("a", "uid-one")
    bench.put(objects.resource("a", device="a", serial="GPU-a", state="Detaching", deleted=True))
    bench.put(objects.claim("one", *mixed, devices=[objects.told(mixed[1], objects.RESCHEDULE)]))
    kept(bench)
    bench.put(objects.claim("one"))
    assert kept(bench) == ({"a": "one"} if before else {})


def test_what_is_to_be_written_follows(crossed: Bench) -> None:
    crossed.state.note_uses(["node-0"])
    assert crossed.state.unwritten_holds("node-0") == [("a", "uid-two")]


def test_holds_that_only_the_objects_remember_are_left_as_well(bench: Bench) -> None:
    """An earlier engine had handed them over."""
    now = time.time()
    bench.put(objects.local_slice("GPU-a", "GPU-b"), objects.claim("one", objects.local_result("gpu-1")),
              objects.claim("two"),
              objects.resource("a", device="a", serial="GPU-a", HELD_FOR=cohdi.hold("uid-one", now)),
              objects.resource("b", device="b", serial="GPU-b", HELD_FOR=cohdi.hold("uid-two", now)))
    assert kept(bench) == {"a": "two"}
    assert kept(bench) == {"a": "two"}


def test_three_that_cross_each_other(bench: Bench) -> None:
    visible(bench, "a", "b", "c")
    for resource, name in (("a", "one"), ("b", "two"), ("c", "three")):
        bench.put(objects.claim(name))
        bench.state.holds.keep(resource, f"uid-{name}")
    bench.put(objects.claim("one", objects.local_result("gpu-1")), objects.claim("two", objects.local_result("gpu-2")))
    assert kept(bench) == {"a": "three"}


def test_of_several_kept_devices_one_is_left(bench: Bench) -> None:
    visible(bench, "a", "b", "c")
    bench.put(objects.claim("pair"), objects.claim("two"))
    for name in ("a", "b"):
        bench.state.holds.keep(name, "uid-pair")
    bench.state.holds.keep("c", "uid-two")
    bench.put(objects.claim("pair", objects.local_result("gpu-0"), objects.local_result("gpu-2")))
    assert kept(bench) == {"b": "two"}


def test_stranger_leaves_nothing(bench: Bench) -> None:
    visible(bench, "a")
    bench.put(objects.claim("one"), objects.claim("stranger", objects.local_result("gpu-0")))
    bench.state.holds.keep("a", "uid-one")
    assert kept(bench) == {}


def test_device_of_another_model_is_not_left(bench: Bench) -> None:
    bench.put(objects.local_slice("GPU-a", "GPU-b"), objects.resource("a", device="a", serial="GPU-a", model=H100),
              objects.resource("b", device="b", serial="GPU-b"), objects.claim("one"), objects.claim("two"))
    bench.state.holds.keep("a", "uid-one")
    bench.state.holds.keep("b", "uid-two")
    bench.put(objects.claim("one", objects.local_result("gpu-1")))
    assert kept(bench) == {}


def test_used_device_is_kept_for_nobody_afterwards(bench: Bench) -> None:
    visible(bench, "a")
    bench.state.holds.keep("a", "uid-one")
    bench.put(objects.claim("one", objects.local_result("gpu-0")))
    bench.state.note_uses(["node-0"])
    assert node_snapshot(bench.state, "node-0").resources[0].held_for == ""
    bench.put(objects.claim("one"))
    assert kept(bench) == {}


def test_kept_by_claim(bench: Bench) -> None:
    visible(bench, "a", "b")
    bench.put(objects.resource("c", HELD_FOR=cohdi.hold("one", 5.0)))
    holds = DeviceHolds(bench.state.resources)
    for name in ("a", "b", "gone"):
        holds.keep(name, "one")
    assert names(holds, "one") == ["a", "b", "c"]
    holds.keep("a", "two")
    holds.end("b")
    assert (names(holds, "one"), names(holds, "two")) == (["c"], ["a"])
    holds.forget("a")
    assert names(holds, "two") == []


def test_end_counts_more_than_the_annotation_until_it_is_forgotten() -> None:
    state = ClusterState(settings())
    state.resources.upsert(objects.resource("a", HELD_FOR=cohdi.hold("uid-one", 5.0)))
    holds, resource = state.holds, state.resources.value("a")
    assert resource is not None
    assert holds.of(resource) == ("uid-one", 5.0)
    holds.end("a")
    assert holds.of(resource) == NONE
    holds.forget("a")
    assert holds.of(resource) == ("uid-one", 5.0)
