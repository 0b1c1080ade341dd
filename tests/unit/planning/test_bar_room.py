# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room for memory windows: counted over all models of a node, told in the reason, and nothing where nobody knows."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.actions import LabelNode, MarkClaim
from ansible_collections.composable.infra.plugins.module_utils.planning.bar_room import BAR_ROOM, GIB, BarRoom
from ansible_collections.composable.infra.plugins.module_utils.planning.node.scale import (
    plan_device_labels,
    plan_scale,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import Stock
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import Settings
from ansible_collections.composable.infra.tests.unit.planning import builders
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, T4, of, online, row
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    Rules,
    exactly,
    gated,
    idle,
    node,
    nodes_by_pod,
    plan,
    release,
)

Json = dict[str, t.Any]
TABLE = Settings.from_dict({"device_info": [row(0, A100, "a100", **{"bar-size": "64Gi"}),
                                            row(1, T4, "t4", **{"bar-size": "16Gi"})]})
RULES = Rules(models=TABLE.models)
SAID = ("no room for the memory windows (BARs) of 1 x A100 40G: they need 64 GiB, but 48 GiB of 112 GiB behind the "
        "fabric's ports are free")


def room(gib: int | None) -> Json:
    """A node of which this is known."""
    return {"places": {BAR_ROOM: gib * GIB} if gib is not None else {}}


@pytest.mark.parametrize(("total", "sizes", "fits"), [
    (128, {A100: 64}, 2), (127, {A100: 64}, 1), (63, {A100: 64}, 0), (None, {A100: 64}, None), (128, {}, None),
    (128, {A100: 0}, None)])
def test_as_many_fit_as_their_sum_says(total: int | None, sizes: dict[str, int], fits: int | None) -> None:
    found = BarRoom(total and total * GIB, {model: size * GIB for model, size in sizes.items()})
    assert found.fits(A100, {}) == fits
    for count in range(1, 4):
        assert bool(found.lack(A100, count, {})) is (fits is not None and count > fits)


def test_devices_of_all_models_count_and_parts_of_a_gib_are_told() -> None:
    found = BarRoom(100 * GIB, {A100: 64 * GIB, T4: 16 * GIB + (16 << 20)})
    assert found.fits(A100, {T4: 2}) == 1
    assert found.fits(A100, {T4: 3}) == 0
    assert "they need 16.0 GiB, but 4.0 GiB of 100 GiB" in found.lack(T4, 1, {A100: 1, T4: 2})
    assert found.lack(T4, 0, {A100: 5}) == ""


def test_held_pod_goes_where_there_is_room_and_the_reason_says_it() -> None:
    full = node("full", stock={A100: Stock(bound=1)}, **room(112))
    there, free = node("there", **room(64)), {(A100, 1): 5}
    assert nodes_by_pod(plan(full, there, gated("p"), free=free, rules=RULES)) == {"p": "there"}
    assert release(plan(full, gated("p"), free=free, rules=RULES), "p").reason.endswith(f"had {SAID}")
    for known in (room(None), room(128)):
        assert nodes_by_pod(plan(node("full", stock={A100: Stock(bound=1)}, **known), gated("p"), free=free,
                                 rules=RULES)) == {"p": "full"}


def test_idle_device_needs_no_more_room() -> None:
    has = node("has", stock={A100: Stock(idle=idle(1), bound=1)}, **room(128))
    assert nodes_by_pod(plan(has, gated("p"), free={(A100, 1): 5}, rules=RULES)) == {"p": "has"}
    assert not nodes_by_pod(plan(has, gated("p", exactly(count=2)), free={(A100, 1): 5}, rules=RULES))


def test_pods_and_requests_of_one_plan_share_the_room() -> None:
    free = {(A100, 1): 9, (T4, 1): 9}
    two = plan(node("n", **room(128)), gated("a", age=9), gated("b", age=8), gated("c"), free=free, rules=RULES)
    assert nodes_by_pod(two) == {"a": "n", "b": "n"}
    both = gated("p", exactly(A100), exactly(T4))
    assert not nodes_by_pod(plan(node("n", **room(79)), both, free=free, rules=RULES))
    assert nodes_by_pod(plan(node("n", **room(80)), both, free=free, rules=RULES)) == {"p": "n"}


def marks(*parts: t.Any, gib: int | None) -> dict[str, tuple[str, str]]:
    """What claims of one node are told."""
    view = builders.node(*parts, bar_room=gib and gib * GIB)
    return {m.name: (m.condition, m.reason) for m in of(plan_scale(view, TABLE), MarkClaim)}


def test_claim_that_the_scheduler_put_on_a_node_without_room_fails_and_says_so() -> None:
    there = [builders.used("r", A100), builders.request(1)]
    found = marks(*there, builders.claim("c"), gib=112)
    assert found == {"c": ("FabricDeviceFailed", f"node node-0 has {SAID}")}
    for enough in (None, 128):
        assert not marks(*there, builders.claim("c"), gib=enough)


def test_first_of_two_claims_gets_the_room() -> None:
    found = marks(builders.claim("old", age=9), builders.claim("new", age=1), gib=100)
    assert found.keys() == {"new"}


def test_claim_for_an_idle_device_of_a_full_node_is_served() -> None:
    found = marks(online("r"), builders.request(1), builders.claim("c"), gib=64)
    assert found["c"][0] == "FabricDeviceReschedule"


@pytest.mark.parametrize(("gib", "shut"), [(64, {"cohdi.io/a100", "cohdi.io/t4"}), (80, {"cohdi.io/a100"}),
                                           (128, set()), (None, set())])
def test_node_is_closed_to_models_that_have_no_room(gib: int | None, shut: set[str]) -> None:
    opened = {"cohdi.io/a100": "true", "cohdi.io/t4": "true"}
    view = builders.node(online("r", A100), labels=opened, bar_room=gib and gib * GIB)
    changes = [dict(action.labels) for action in plan_device_labels(view, TABLE) if isinstance(action, LabelNode)]
    assert {name for each in changes for name in each} == shut
