# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that the autoscaler's provider chose a node for: their demand is served by the scaler, and ends by itself."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.autoscaling import (
    RETURN_IDLE,
    SCALE_UP,
    ScaleUpEntry,
    read_return_idle,
    read_scale_up,
    return_idle_text,
    scale_up_text,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.plan import plan_placements
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.planner import plan_gated_pods
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.pool.snapshot import pool_snapshot
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.scale_ups import (
    live_entries,
    requested_placements,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, H100
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench

Json = dict[str, t.Any]


def entry(pod: str = "train", count: int = 1, lasts: float = 60.0, **more: t.Any) -> ScaleUpEntry:
    """An entry of now."""
    now = time.time()
    return ScaleUpEntry(**{"pod": f"pod-{pod}", "claim": f"uid-{pod}", "count": count, "since": now,
                           "until": now + lasts, **more})


def ask(held: Bench, *entries: ScaleUpEntry, model: str = A100, name: str = "request", set_size: int = 0,
        return_idle: float = 0.0) -> None:
    """The provider has chosen node-0; an entry keeps a device, and ``return_idle`` lets idle ones go."""
    raw = objects.request(name, set_size, model)
    idle = return_idle_text(return_idle) if return_idle else None
    notes = {SCALE_UP: scale_up_text(entries), RETURN_IDLE: idle}
    raw["metadata"]["annotations"] = {key: text for key, text in notes.items() if text}
    held.put(raw)


def unschedulable(name: str = "train") -> tuple[Json, Json]:
    """A pod that no gate holds, and its claim."""
    raw = gated_pods.pod(name)
    raw["spec"]["schedulingGates"] = []
    return gated_pods.claim(name), raw


def size(held: Bench) -> int:
    """What the scaler has set."""
    return int(held.api.one(COMPOSABILITY_REQUESTS, "request")["spec"]["resource"]["size"])


def test_device_is_attached_for_the_pod_and_stays_until_it_is_bound(held: Bench) -> None:
    held.put(*unschedulable())
    ask(held, entry())
    held.run()
    assert size(held) == 1
    assert len(held.fabric.attached) == 1
    gated_pods.announce(held)
    ask(held, entry(), set_size=1, return_idle=time.time() + 1)
    held.run()
    assert size(held) == 1, "it stays though nobody uses it and idle devices may go"
    assert not gated_pods.nominated(held), "where the pod goes is the scheduler's"


def test_device_that_no_entry_keeps_stays_for_the_hold_time_and_leaves_when_it_may(held: Bench) -> None:
    held.put(*unschedulable())
    ask(held, entry())
    held.run()
    gated_pods.announce(held)
    ask(held, set_size=1)
    held.run()
    assert size(held) == 1
    ask(held, set_size=1, return_idle=time.time() - 1000)
    held.run()
    assert size(held) == 1, "it was attached after that moment"
    ask(held, set_size=1, return_idle=time.time() + 1)
    held.run(4)
    assert size(held) == 0
    assert not [raw for raw in held.api.of(COMPOSABLE_RESOURCES) if not raw["metadata"].get("deletionTimestamp")]


@pytest.mark.parametrize("ends", ["time is over", "pod is bound", "pod is gone", "claim is allocated"])
def test_entry_ends_by_itself(held: Bench, ends: str) -> None:
    claim, pod = unschedulable()
    held.put(claim, pod)
    ask(held, entry())
    assert list(live_entries(held.state, time.time()))
    if ends == "time is over":
        assert not list(live_entries(held.state, time.time() + 61))
        return
    if ends == "pod is bound":
        held.put({**pod, "spec": {**pod["spec"], "nodeName": "node-0"}})
    elif ends == "pod is gone":
        held.drop(pod)
    else:
        held.put(gated_pods.allocated("train", "gpu-0"))
    assert not list(live_entries(held.state, time.time()))


def test_what_a_wait_is_for_is_said(held: Bench) -> None:
    held.put(*unschedulable())
    ask(held, entry())
    held.run()
    said = [reason.waits_for for reason in bench_reasons(held)]
    assert said == [f"1 x {A100} on node node-0, 1 attached but not yet in the node's ResourceSlice"]
    gated_pods.announce(held)
    held.run()
    assert bench_reasons(held)[0].waits_for.startswith("the scheduler to place its pod: 1 x ")


def bench_reasons(held: Bench) -> tuple[WaitReason, ...]:
    """What the claims of the node wait for, as planned last."""
    return tuple(held.nodes.wait_reasons["node-0"])


def test_claim_of_two_models_is_one_claim(held: Bench) -> None:
    held.put(*unschedulable())
    ask(held, entry(count=2))
    ask(held, entry(), model=H100, name="other")
    (claim,) = node_snapshot(held.state, "node-0").claims
    assert claim.need() == {A100: 2, H100: 1}
    (placement,) = requested_placements(held.state, time.time())
    assert placement.needs == {"uid-train": {A100: 2, H100: 1}}


def test_held_pods_are_not_promised_the_same_device(held: Bench) -> None:
    held.fabric.free_count = 1
    held.put(*unschedulable())
    ask(held, entry())
    gated_pods.ask(held, "held")
    held.look()
    plan = plan_gated_pods(held.state, plan_placements)
    assert not plan.placements
    held.reconcile(GatesKey())
    assert gated_pods.reserved(held) == []


def test_pool_does_not_show_a_device_that_is_wanted_for_the_pod(held: Bench) -> None:
    held.put(*unschedulable())
    held.look()
    model = held.settings.models[0]
    assert held.state.snapshot
    before = pool_snapshot(held.state, model, 1, held.state.snapshot)
    ask(held, entry())
    after = pool_snapshot(held.state, model, 1, held.state.snapshot)
    assert before
    assert after
    assert (before.reserved, after.reserved) == (0, 1)


def test_entries_survive_being_written_and_read() -> None:
    now = 1_800_000_000.25
    wanted = (ScaleUpEntry("p", "c", 2, now, now + 60), ScaleUpEntry("q", "ns/q", 1, now, now + 1.5))
    raw = objects.request()
    raw["metadata"]["annotations"] = {SCALE_UP: scale_up_text(wanted), RETURN_IDLE: return_idle_text(now)}
    assert read_scale_up(raw) == wanted
    assert read_return_idle(raw) == now
    assert scale_up_text(()) is None


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"pod": "p"}]', '{"pod": "p"}', "[null]",
                                  '[{"pod":"p","claim":"c","count":-1,"since":"","until":""}]',
                                  '[{"pod":"p","claim":"c","count":99999,"since":"","until":""}]'])
def test_what_cannot_be_read_says_nothing(text: str) -> None:
    raw = objects.request()
    raw["metadata"]["annotations"] = {SCALE_UP: text, RETURN_IDLE: "soon"}
    assert read_scale_up(raw) == ()
    assert read_return_idle(raw) == 0.0
