# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What CoHDI's tests of dynamic-device-scaler show, case by case, on our scaler. Upstream's case is in the name.

Where ours differs on purpose the docstring says so, and docs/contributors/compatibility.md says why.
"""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time, parse_time
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import SetSize
from ansible_collections.composable.infra.plugins.module_utils.planning.node.demand import PREPARING
from ansible_collections.composable.infra.plugins.module_utils.planning.node.scale import plan_scale
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import Claim
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import BadSetting
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey, NodeRecordsKey, PoolKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.adapters import claim_with_pool_devices
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values.claim_values import read_claim
from ansible_collections.composable.infra.tests.unit.planning.builders import (
    A100,
    H100,
    NOW,
    claim,
    node,
    one,
    online,
    request,
    settings,
    used,
)
from ansible_collections.composable.infra.tests.unit.planning.node import test_labels, test_sizes
from ansible_collections.composable.infra.tests.unit.planning.node.refusals_support import (
    failed,
)
from ansible_collections.composable.infra.tests.unit.planning.node.sizes_support import (
    MAX_LABEL,
)
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

SETTINGS = settings()
# As dynamic-device-scaler sets them where nothing else is said.
UPSTREAM: dict[str, t.Any] = {"device_no_removal_duration": 600, "device_no_allocation_duration": 60}


def waiting(name: str = "train", *devices: str, **more: t.Any) -> dict[str, t.Any]:
    """A claim that is preparing."""
    return objects.claim(name, *[objects.pool_result(d) for d in devices or ("a100-0",)], **more)


def conditions(bench: Bench, name: str = "train") -> list[str]:
    """What a claim was told."""
    entries = bench.api.one(CLAIMS, name, "default")["status"].get("devices") or []
    return [c["type"] for entry in entries for c in entry["conditions"]]


def idle(bench: Bench, last_used: str, name: str = "gpu-a", number: int = 1) -> None:
    """A device of the node that is attached, visible and idle, with CoHDI's annotation."""
    bench.fabric.attached[f"d{number}"] = device(f"d{number}")
    raw = objects.resource(name, device=f"d{number}", serial=f"GPU-d{number}", asked=900, state="Online", created=900)
    raw["metadata"]["annotations"]["cohdi.io/last-used-time"] = last_used
    bench.put(raw)


@pytest.fixture
def resting(bench: Bench) -> t.Iterator[Bench]:
    """The bench with upstream's durations, a request and a device in the node's slice."""
    made = Bench(**UPSTREAM)
    made.build()
    made.put(objects.node(), objects.request(), objects.local_slice("GPU-d1"))
    made.look()
    yield made
    made.close()


def planned(raw: dict[str, t.Any]) -> Claim | None:
    """The claim as planners read it."""
    return claim_with_pool_devices(read_claim(raw), SETTINGS)


def test_case_21_claim_without_reserved_for_or_binding_devices_is_ignored(bench: Bench) -> None:
    free, local = waiting("free", pods=()), objects.claim("local", objects.local_result())
    assert (planned(free), planned(local)) == (None, None)
    bench.put(free, local)
    bench.run()
    assert (bench.fabric.attaches, bench.api.of(COMPOSABILITY_REQUESTS)) == ([], [])


def test_case_22_claim_with_empty_status_devices_is_preparing() -> None:
    empty: tuple[dict[str, t.Any], ...] = ({}, {"devices": []}, {"devices": None})
    for devices in empty:
        found = planned(waiting(**devices))
        assert found is not None
        assert found.phase == PREPARING


def test_case_23_unknown_device_name_of_a_pool_is_an_error(bench: Bench) -> None:
    """Upstream stops for all nodes; ours fails the claim with the name of the pool, and serves the others."""
    bench.put(objects.claim("bad", objects.pool_result("x-0", "strange-fabric1")), waiting("good"))
    bench.run(1)
    assert (conditions(bench, "bad"), conditions(bench, "good")) == ([objects.FAILED], [])
    assert bench.told("Trouble") == []
    assert len(bench.fabric.attaches) == 1


def test_case_24_label_that_is_no_integer_is_an_error(bench: Bench) -> None:
    """Upstream stops for all nodes; ours says which label of which node it is, and goes on without it."""
    bench.put(objects.node("node-0", **{MAX_LABEL: "many"}), waiting())
    bench.run()
    assert f"label {MAX_LABEL} of node node-0 is ignored: 'many' is not a whole number" in bench.told("Trouble")
    assert len(bench.fabric.attaches) == 1


def test_case_25_2_preparing_min_3_size_1_is_size_3() -> None:
    test_sizes.test_smallest_number_is_kept()


def test_case_26_2_preparing_size_5_without_resources_is_size_2() -> None:
    test_sizes.test_request_without_resources_shrinks_to_what_is_wanted()


def test_case_27_1_wanted_and_2_recent_of_size_4_is_size_2() -> None:
    """The one that is in use counts as used lately at upstream, too."""
    lately: dict[str, t.Any] = {"last_used": NOW - 5, "created": NOW - 9000}
    long_ago: dict[str, t.Any] = {"last_used": NOW - 5000, "created": NOW - 9000}
    parts = [used("a", **lately), online("b", **lately), online("c", **long_ago), online("d", **long_ago)]
    action = one(plan_scale(node(request(4), *parts), settings(**UPSTREAM)), SetSize)
    assert (action.before, action.size) == (4, 2)


def test_case_28_without_a_request_1_preparing_creates_one_of_size_1(bench: Bench) -> None:
    bench.put(waiting())
    bench.run(1)
    (raw,) = bench.api.of(COMPOSABILITY_REQUESTS)
    assert raw["metadata"]["name"].startswith("composability-")
    assert raw["spec"]["resource"] == {"type": "gpu", "model": A100, "size": 1, "target_node": "node-0",
                                       "allocation_policy": "samenode"}


def test_case_29_2_preparing_max_1_fails() -> None:
    """Upstream fails both; ours serves the older, since there is room for one."""
    plan = plan_scale(node(claim("old", age=9), claim("new", age=1), labels={MAX_LABEL: "1"}), SETTINGS)
    assert failed(plan) == {"new": f"node node-0 may have at most 1 x {A100}, and would have 2 with this claim"}
    assert one(plan, SetSize).size == 1


@pytest.mark.parametrize("present", [request(1, H100), online("r", H100), claim("older", H100, age=9)],
                         ids=["request", "resource", "claim"])
def test_case_30_incompatible_with_what_is_there_fails(present: t.Any) -> None:
    plan = plan_scale(node(present, claim("c", A100, age=1)), SETTINGS)
    assert failed(plan) == {"c": f"{A100} cannot be on node node-0 together with {H100}"}


def test_case_31_device_that_vanished_from_its_pool(bench: Bench) -> None:
    """Upstream fails the claim; ours shows the device again, since it was promised, and serves the claim."""
    bench.put(objects.pool_slice("a100-0", "a100-1"), waiting("train", "a100-7"))
    bench.fabric.free_count = 2
    bench.look()
    bench.reconcile(PoolKey(A100, 1))
    shown = [d["name"] for item in bench.api.of(SLICES) for d in item["spec"]["devices"]]
    assert "a100-7" in shown
    bench.run()
    assert conditions(bench) == []
    assert len(bench.fabric.attaches) == 1


def test_case_32_enough_old_idle_devices_are_a_reschedule_and_stamped(resting: Bench) -> None:
    idle(resting, format_time(time.time() - 120))
    resting.put(waiting())
    before = time.time() - 1
    for key in (NodeKey("node-0"), NodeRecordsKey("node-0")):
        resting.reconcile(key)
    assert conditions(resting) == [objects.RESCHEDULE]
    stamp = resting.api.one(COMPOSABLE_RESOURCES, "gpu-a")["metadata"]["annotations"]["cohdi.io/last-used-time"]
    assert parse_time(stamp) >= before


@pytest.mark.parametrize("in_use", [True, False], ids=["used", "used 10 s ago"])
def test_case_33_device_used_or_used_10_s_ago_leaves_the_claim_preparing(resting: Bench, in_use: bool) -> None:
    idle(resting, format_time(time.time() - 10))
    resting.put(waiting(), *([objects.claim("other", objects.local_result())] if in_use else []))
    resting.reconcile(NodeKey("node-0"))
    assert conditions(resting) == []


def test_case_34_annotation_that_cannot_be_parsed(resting: Bench) -> None:
    """Upstream stops shrinking; ours counts such a device from its creation, and the others as ever."""
    idle(resting, "yesterday")
    idle(resting, format_time(time.time() - 5), "gpu-b", 2)
    resting.put(objects.request(size=2), objects.local_slice("GPU-d1", "GPU-d2"))
    for key in (NodeKey("node-0"), NodeRecordsKey("node-0")):
        resting.reconcile(key)
    assert resting.api.one(COMPOSABILITY_REQUESTS, "request")["spec"]["resource"]["size"] == 1
    deleted = [r["metadata"]["name"] for r in resting.api.of(COMPOSABLE_RESOURCES)
               if "deletionTimestamp" in r["metadata"]]
    assert deleted == ["gpu-a"]


def test_case_35_installed_a_that_excludes_b_and_c_drops_their_labels() -> None:
    """H100 excludes A100 and T4."""
    test_labels.test_installed_model_closes_those_it_cannot_be_with()
    view = test_labels.opened(online("r", H100))
    assert test_labels.closed(view) == {"cohdi.io/a100", "cohdi.io/t4"}


@pytest.mark.parametrize("key", sorted(UPSTREAM))
def test_case_52_interval_must_be_a_number_from_0_to_86400(key: str) -> None:
    """Upstream takes whole seconds and an empty text for the default; ours any number, and a missing key."""
    for value in ("soon", "60", "", -1, 86401):
        with pytest.raises(BadSetting, match=f"^{key}: .*from 0 to 86400"):
            settings(**{key: value})
    assert [getattr(settings(**{key: v}), key) for v in (0, 60, 86400)] == [0, 60, 86400]
    assert settings().device_no_removal_duration == UPSTREAM["device_no_removal_duration"]
