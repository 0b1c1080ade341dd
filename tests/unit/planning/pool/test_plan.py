# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools: a promised device is never withdrawn, and slices change only when the set of devices does."""

from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.pool.plan import (
    SLICE_LIMIT,
    PoolPlan,
    PoolSlice,
    PoolSnapshot,
    device_names,
    plan_pool,
    unassigned,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import Settings
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER, model_of, row, settings

SETTINGS = settings()
MODEL = model_of(A100)


def view(free: int, *promised: int, arrived: int = 0, slices: t.Sequence[PoolSlice] = ()) -> PoolSnapshot:
    """The pool ``a100-fabric1``; ``promised`` are numbers of device names."""
    return PoolSnapshot(MODEL, 1, free, frozenset(names(*promised)), arrived, tuple(slices))


def names(*numbers: int) -> list[str]:
    """Device names."""
    return [f"a100-{n}" for n in numbers]


def shown(*numbers: int, generation: int = 1, count: int = 1, name: str = "slice-0") -> PoolSlice:
    """A published slice with these devices."""
    return PoolSlice(name, generation, count, tuple(names(*numbers)))


def plan(*args: t.Any, **more: t.Any) -> PoolPlan:
    """The plan of ``view(...)``."""
    return plan_pool(view(*args, **more), SETTINGS)


def specs(found: PoolPlan) -> list[dict[str, t.Any]]:
    """All specs that are written."""
    return [*found.replace.values(), *found.create]


def written(found: PoolPlan) -> list[list[str]]:
    """Device names of each spec."""
    return [[d["name"] for d in spec["devices"]] for spec in specs(found)]


@pytest.mark.parametrize(("free", "promised", "arrived", "expected"), [
    (0, (), 0, []), (3, (), 0, [0, 1, 2]),
    (3, (0,), 0, [0, 1, 2]), (3, (2,), 0, [0, 1, 2]), (3, (7,), 0, [0, 1, 7]),
    (0, (1,), 0, [1]), (0, (1,), 1, [1]), (0, (1, 5), 0, [1, 5]),
    (2, (0,), 1, [0, 1, 2]), (2, (0, 1), 1, [0, 1, 2]), (1, (0, 1, 2), 1, [0, 1, 2]), (3, (0,), 9, [0, 1, 2, 3]),
])
def test_names(free: int, promised: tuple[int, ...], arrived: int, expected: list[int]) -> None:
    assert device_names(view(free, *promised, arrived=arrived), 512) == names(*expected)


def test_names_are_in_order_of_their_number() -> None:
    assert device_names(view(12), 512)[9:] == names(9, 10, 11)


def test_promised_name_that_is_none_of_ours_is_kept() -> None:
    odd = PoolSnapshot(MODEL, 1, 1, frozenset({"odd", "a100-x"}))
    assert {"odd", "a100-x"} <= set(device_names(odd, 512))


def test_way_of_one_claim_changes_the_pool_once() -> None:
    """Allocated, attached (leaves the free count, the claim still holds its name), moved on to the node's slice."""
    slices = [shown(0, 1, 2)]
    assert plan(3, 0, slices=slices).empty
    assert plan(2, 0, arrived=1, slices=slices).empty
    moved_on = plan(2, slices=slices)
    assert (moved_on.generation, written(moved_on)) == (2, [names(0, 1)])


def test_counts_read_before_the_device_arrived_change_nothing() -> None:
    assert plan(3, 0, arrived=0, slices=[shown(0, 1, 2)]).empty


def test_shrinking_pool_keeps_every_promise() -> None:
    found = plan(0, 1, 2, slices=[shown(0, 1, 2, 3)])
    assert written(found) == [names(1, 2)]


def test_new_pool() -> None:
    found = plan(2)
    assert (found.pool, found.generation, found.replace, found.delete) == ("a100-fabric1", 1, {}, ())
    (spec,) = found.create
    assert spec["driver"] == DRIVER
    assert spec["pool"] == {"name": "a100-fabric1", "generation": 1, "resourceSliceCount": 1}
    assert [d["name"] for d in spec["devices"]] == names(0, 1) == list(found.devices)


def test_device_waits_for_binding_on_its_node() -> None:
    (spec,) = plan(1).create
    assert spec["devices"] == [{
        "name": "a100-0", "attributes": {"productName": {"string": "NVIDIA A100 40G"}}, "bindsToNode": True,
        "bindingConditions": ["FabricDeviceReady"],
        "bindingFailureConditions": ["FabricDeviceReschedule", "FabricDeviceFailed"]}]


def of_capacity(amount: str) -> Settings:
    """The model's devices have so much memory."""
    return Settings.from_dict({"device_info": [row(0, A100, "a100", capacity={"memory": amount})]})


def test_pool_device_says_its_capacity_but_not_that_claims_share_it() -> None:
    made = of_capacity("40Gi")
    (spec,) = plan_pool(PoolSnapshot(made.models[0], 1, 1), made).create
    (device,) = spec["devices"]
    assert device["capacity"] == {"memory": {"value": "40Gi"}}
    assert "allowMultipleAllocations" not in device


@pytest.mark.parametrize(("now", "same"), [("40Gi", True), ("40960Mi", True), ("80Gi", False)])
def test_pool_is_written_again_when_the_capacity_is_another_one(now: str, same: bool) -> None:
    before, after = of_capacity("40Gi"), of_capacity(now)
    (spec,) = plan_pool(PoolSnapshot(before.models[0], 1, 1), before).create
    there = PoolSlice("slice-0", 1, 1, ("a100-0",), spec)
    assert plan_pool(PoolSnapshot(after.models[0], 1, 1, slices=(there,)), after).empty is same


def test_slice_is_open_to_labelled_nodes_of_its_fabric() -> None:
    (spec,) = plan_pool(PoolSnapshot(MODEL, 7, 1), settings(label_prefix="gpu.example")).create
    (term,) = spec["nodeSelector"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "gpu.example/a100", "operator": "In", "values": ["true"]},
                                        {"key": "gpu.example/fabric", "operator": "In", "values": ["7"]}]


@pytest.mark.parametrize(("handover", "kept_out"), [("direct", [["own.example"]]), ("gated", []), ("reschedule", [])])
def test_pool_that_claims_keep_is_closed_to_nodes_with_another_driver(handover: str, kept_out: list[list[str]]) -> None:
    table = {"device_info": [row(0, A100, "a100", **{"other-driver-names": ["own.example"]})]}
    made = Settings.from_dict({**table, "handover": handover})
    (spec,) = plan_pool(PoolSnapshot(made.models[0], 1, 1), made).create
    (term,) = spec["nodeSelector"]["nodeSelectorTerms"]
    found = [each for each in term["matchExpressions"] if each["key"] == "composable.infra/dra-driver"]
    assert [each["values"] for each in found] == kept_out
    assert {each["operator"] for each in found} <= {"NotIn"}


def test_empty_pool_is_one_empty_slice() -> None:
    found = plan(0)
    assert written(found) == [[]]
    assert found.create[0]["pool"]["resourceSliceCount"] == 1
    assert plan(0, slices=[shown()]).empty


def test_same_devices_keep_their_generation() -> None:
    found = plan(2, slices=[shown(0, 1, generation=7)])
    assert (found.empty, found.generation) == (True, 7)


@pytest.mark.parametrize("free", [1, 3])
def test_other_count_is_the_next_generation_in_the_same_slice(free: int) -> None:
    found = plan(free, slices=[shown(0, 1, generation=7)])
    assert (found.generation, list(found.replace), found.create) == (8, ["slice-0"], ())
    assert written(found) == [names(*range(free))]


@pytest.mark.parametrize(("free", "sizes"), [(128, [128]), (129, [128, 1]), (256, [128, 128]), (300, [128, 128, 44])])
def test_large_pool_has_several_slices(free: int, sizes: list[int]) -> None:
    found = plan(free)
    assert [len(d) for d in written(found)] == sizes
    assert all(spec["pool"] == {"name": "a100-fabric1", "generation": 1, "resourceSliceCount": len(sizes)}
               for spec in specs(found))
    assert [name for part in written(found) for name in part] == names(*range(free))


def test_pool_that_grows_beyond_a_slice_rewrites_the_first_and_adds_one() -> None:
    found = plan(SLICE_LIMIT + 2, slices=[shown(*range(SLICE_LIMIT))])
    assert (list(found.replace), len(found.create), found.delete) == (["slice-0"], 1, ())
    assert [s["pool"]["generation"] for s in specs(found)] == [2, 2]


def test_pool_that_shrinks_to_a_slice_deletes_the_other() -> None:
    two = [shown(*range(128), count=2, name="b"), shown(128, count=2, name="a")]
    found = plan(3, slices=two)
    assert (list(found.replace), found.create, found.delete) == (["a"], (), ("b",))
    assert found.replace["a"]["pool"]["resourceSliceCount"] == 1


@pytest.mark.parametrize("slices", [
    [shown(0, count=2)],
    [shown(0, generation=2, count=1), shown(1, generation=1, count=1, name="slice-1")],
    [shown(0, generation=2, count=2), shown(1, generation=1, count=2, name="slice-1")],
    [shown(0, count=1), shown(1, count=1, name="slice-1")],
], ids=["one of two is missing", "old one left behind", "half written", "counts are wrong"])
def test_incomplete_pool_is_written_anew(slices: list[PoolSlice]) -> None:
    found = plan(2, slices=slices)
    assert not found.empty
    assert found.generation == max(s.generation for s in slices) + 1
    assert sorted(name for part in written(found) for name in part) == names(0, 1)
    assert len(slices) == len(found.replace) + len(found.delete)


def test_same_names_in_other_slices_are_complete() -> None:
    both = [shown(0, count=2), shown(1, count=2, name="slice-1")]
    assert plan(2, slices=both).empty


def test_reason_gives_the_counts() -> None:
    assert plan(4, 0, 1, arrived=1).reason == "4 free, 2 allocated, 1 of them attached"


def apply(found: PoolPlan, slices: dict[str, PoolSlice], fresh: t.Iterator[int]) -> dict[str, PoolSlice]:
    """The slices after the plan was written."""
    if found.empty:
        return slices
    specs_ = [*found.replace.items(), *((f"new-{next(fresh)}", s) for s in found.create)]
    now = {n: PoolSlice(n, s["pool"]["generation"], s["pool"]["resourceSliceCount"],
                        tuple(d["name"] for d in s["devices"])) for n, s in specs_}
    return {n: s for n, s in {**slices, **now}.items() if n not in found.delete}


@pytest.mark.parametrize("seed", range(20))
def test_any_history_of_counts_and_promises(seed: int) -> None:
    rng, fresh = random.Random(seed), iter(range(10_000))
    slices: dict[str, PoolSlice] = {}
    for _unused in range(40):
        published = [d for s in slices.values() for d in s.devices]
        promised = frozenset(rng.sample(published, rng.randint(0, min(6, len(published)))))
        seen = PoolSnapshot(MODEL, 1, rng.choice((0, 1, 2, 5, 127, 128, 129, 300)), promised,
                            rng.randint(0, len(promised)), tuple(slices.values()))
        before = max((s.generation for s in slices.values()), default=0)
        found = plan_pool(seen, SETTINGS)
        slices = apply(found, slices, fresh)
        devices = [d for s in slices.values() for d in s.devices]
        assert promised <= set(devices), f"seed {seed}: a promise was withdrawn"
        assert len(devices) == len(set(devices)), f"seed {seed}: a device is shown twice"
        assert {(s.generation, s.count) for s in slices.values()} == {(found.generation, len(slices))}
        assert found.generation in (before, before + 1)
        assert len(devices) >= min(seen.free, SETTINGS.max_pool_devices // 2)
        assert plan_pool(PoolSnapshot(MODEL, 1, seen.free, promised, seen.arrived, tuple(slices.values())),
                         SETTINGS).empty, f"seed {seed}: the second plan is not empty"


def published(found: PoolPlan) -> tuple[PoolSlice, ...]:
    """The slices of a pool that was just created."""
    return tuple(apply(found, {}, iter(range(1000))).values())


def large(free: int, reserved: int = 0, *promised: int, slices: t.Sequence[PoolSlice] = ()) -> PoolSnapshot:
    """A pool of many devices."""
    return PoolSnapshot(MODEL, 1, free, frozenset(names(*promised)), 0, tuple(slices), reserved)


def test_reserving_a_device_of_a_large_pool_writes_nothing() -> None:
    slices = published(plan_pool(large(20_000), SETTINGS))
    assert [len(each.devices) for each in slices] == [128] * 4
    assert plan_pool(large(20_000, 1, slices=slices), SETTINGS).empty
    assert plan_pool(large(20_000, 19_488, slices=slices), SETTINGS).empty
    assert len(plan_pool(large(20_000, 19_489, slices=slices), SETTINGS).devices) == 511


def test_large_pool_is_filled_up_when_half_of_what_it_shows_is_promised() -> None:
    slices = published(plan_pool(large(20_000), SETTINGS))
    assert plan_pool(large(20_000, 0, *range(256), slices=slices), SETTINGS).empty
    found = plan_pool(large(20_000, 0, *range(257), slices=slices), SETTINGS)
    assert len(found.devices) == 257 + 512


def test_pool_that_shows_more_than_is_allowed_now_is_written_again() -> None:
    slices = published(plan_pool(large(20), SETTINGS))
    found = plan_pool(large(20, slices=slices), settings(max_pool_devices=8))
    assert found.devices == tuple(names(*range(8)))


@pytest.mark.parametrize("seed", range(20))
def test_any_history_with_a_ceiling(seed: int) -> None:
    """No pool shows a device too many, hides a promise, or shows too few."""
    rng, fresh, made = random.Random(seed), iter(range(10_000)), settings(max_pool_devices=10)
    slices: dict[str, PoolSlice] = {}
    for _unused in range(60):
        shown_now = [d for s in slices.values() for d in s.devices]
        promised = frozenset(rng.sample(shown_now, rng.randint(0, min(6, len(shown_now)))))
        seen = PoolSnapshot(MODEL, 1, rng.choice((0, 1, 4, 9, 10, 11, 40)), promised, rng.randint(0, len(promised)),
                            tuple(slices.values()), rng.choice((0, 1, 5)))
        slices = apply(plan_pool(seen, made), slices, fresh)
        devices = {d for s in slices.values() for d in s.devices}
        assert promised <= devices, f"seed {seed}: a promise was withdrawn"
        assert min(unassigned(seen), 5) <= len(devices - promised) <= min(unassigned(seen), 10), f"seed {seed}"


def test_names_that_claims_keep_stay_and_are_not_free() -> None:
    found = plan_pool(PoolSnapshot(MODEL, 1, 2, kept=frozenset(names(0, 7))), SETTINGS)
    assert found.devices == tuple(names(0, 1, 2, 7))
    assert found.reason == "2 free, 0 allocated, 0 of them attached, 2 pre-assigned"


def test_name_that_a_claim_keeps_and_another_promise() -> None:
    view_ = PoolSnapshot(MODEL, 1, 1, frozenset(names(1)), kept=frozenset(names(0)))
    assert device_names(view_, 512) == names(0, 1)
