# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our operator beside CoHDI's scaler, which shrinks a request while its device is handed over.

CoHDI's scaler counts a claim no more between the moment when the scheduler drops the allocation and the next one. With
a hold time (DEVICE_NO_REMOVAL_DURATION) shorter than that it sets the size to 0 meanwhile.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import ClaimRef, read_claim
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey, NodeRecordsKey
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

Json = dict[str, t.Any]
POOL_DEVICE = objects.pool_result("a100-0")
NODE = NodeKey("node-0")


def resource(name: str, uid: str) -> Json:
    """Attached, in the node's slice, and never used."""
    return objects.resource(name, device=uid, serial=f"GPU-{uid}", asked=900, state="Online")


@pytest.fixture
def alone() -> Iterator[Bench]:
    """An operator without a scaler; one device that is attached and idle, as CoHDI's request wants it."""
    made = Bench()
    made.build(frozenset({"operator"}))
    made.fabric.attached["d1"] = device("d1")
    made.put(objects.node(), objects.request(size=1), resource("gpu-a", "d1"), objects.local_slice("GPU-d1"))
    made.look()
    yield made
    made.close()


def told_to_move_on(name: str = "train", node: str = "node-0") -> Json:
    """A claim on which CoHDI's scaler has set its condition."""
    return objects.claim(name, POOL_DEVICE, node=node, devices=[objects.told(POOL_DEVICE, objects.RESCHEDULE)])


def shrink(bench: Bench, size: int = 0) -> None:
    bench.put(objects.request(size=size))
    bench.reconcile(NODE)
    bench.idle()


def names(bench: Bench) -> list[str]:
    """ComposableResources that are there and not being deleted."""
    return sorted(r["metadata"]["name"] for r in bench.state.resources.list()
                  if "deletionTimestamp" not in bench.api.one(COMPOSABLE_RESOURCES, r["metadata"]["name"])["metadata"])


def test_device_stays_while_a_claim_is_told_to_move_on(alone: Bench) -> None:
    alone.put(told_to_move_on())
    shrink(alone)
    assert names(alone) == ["gpu-a"]


def test_device_stays_between_two_allocations_of_its_claim(alone: Bench) -> None:
    alone.put(told_to_move_on())
    alone.reconcile(NODE)
    alone.put(objects.claim("train"))
    shrink(alone)
    assert names(alone) == ["gpu-a"]
    assert not alone.fabric.detaches


def test_it_is_written_down_so_that_another_process_keeps_it_too(alone: Bench) -> None:
    alone.put(told_to_move_on())
    alone.reconcile(NODE)
    alone.reconcile(NodeRecordsKey("node-0"))
    assert cohdi.read_hold(alone.api.one(COMPOSABLE_RESOURCES, "gpu-a"))[0] == "uid-train"


def test_successor_of_our_own_scaler_keeps_it_too() -> None:
    """The one before was killed between the condition and the annotation that says for whom the device is kept."""
    made = Bench(device_no_removal_duration=1)
    made.build()
    try:
        made.fabric.attached["d1"] = device("d1")
        made.put(objects.node(), objects.request(size=1), resource("gpu-a", "d1"), objects.local_slice("GPU-d1"))
        made.look()
        made.put(told_to_move_on())
        made.reconcile(NODE)
        made.put(objects.claim("train"))
        made.run(2)
        assert names(made) == ["gpu-a"]
        assert not made.fabric.detaches
    finally:
        made.close()


def test_surplus_beside_it_goes(alone: Bench) -> None:
    alone.fabric.attached["d2"] = device("d2")
    alone.put(resource("gpu-b", "d2"), objects.local_slice("GPU-d1", "GPU-d2"), told_to_move_on())
    shrink(alone)
    assert len(names(alone)) == 1


def test_it_goes_once_the_claim_is_served_elsewhere(alone: Bench) -> None:
    alone.put(told_to_move_on())
    alone.reconcile(NODE)
    alone.put(objects.claim("train", objects.local_result(pool="node-1"), node="node-1"))
    shrink(alone)
    assert names(alone) == []


def test_it_goes_when_nobody_came_for_it_in_time(alone: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    alone.put(told_to_move_on())
    alone.reconcile(NODE)
    alone.put(objects.claim("train"))
    later = time.time() + alone.settings.handover_timeout + 1
    monkeypatch.setattr(time, "time", lambda: later)
    shrink(alone)
    assert names(alone) == []


def test_device_of_another_claim_is_not_kept_for_it(alone: Bench) -> None:
    alone.put(objects.claim("other", objects.local_result("gpu-0")), told_to_move_on())
    alone.reconcile(NODE)
    assert alone.state.holds.kept_for("uid-train") == []


def test_claim_of_another_node_keeps_nothing_here(alone: Bench) -> None:
    alone.put(told_to_move_on(node="node-1"))
    shrink(alone)
    assert names(alone) == []


def test_hold_of_a_claim_that_is_gone_keeps_nobody_from_it(alone: Bench) -> None:
    held = resource("gpu-a", "d1")
    held["metadata"]["annotations"][cohdi.HELD_FOR] = cohdi.hold("uid-gone", time.time() - 900)
    alone.put(held, told_to_move_on())
    shrink(alone)
    assert names(alone) == ["gpu-a"]


def test_device_of_a_held_pod_is_attached_for_its_claim_by_name(alone: Bench) -> None:
    """Which pod has this node only our scaler knows, in another process; it notes that with the size."""
    wanted = objects.request(size=2)
    wanted["metadata"]["annotations"] = {cohdi.CLAIMS: "uid-train"}
    alone.put(wanted, objects.claim("train"))
    alone.reconcile(NODE)
    alone.idle()
    (new,) = (r for r in alone.state.resources.list() if r["metadata"]["name"] != "gpu-a")
    assert read_claim(new) == ClaimRef("default/train", "uid-train")


def test_text_that_names_no_claim_is_noted_nowhere(alone: Bench) -> None:
    wanted = objects.request(size=2)
    wanted["metadata"]["annotations"] = {cohdi.CLAIMS: "whatever\nsomebody wrote"}
    alone.put(wanted)
    alone.reconcile(NODE)
    alone.idle()
    (new,) = (r for r in alone.state.resources.list() if r["metadata"]["name"] != "gpu-a")
    assert read_claim(new) is None
