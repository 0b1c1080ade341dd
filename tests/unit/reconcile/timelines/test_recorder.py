# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A served claim's timeline is written once, on a device that it uses, when its pod runs or soon after."""

from __future__ import annotations

import time

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import ClaimRef
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeRecordsKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines import recorder as module
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.recorder import (
    START_SECONDS,
    TimelineRecorder,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import (
    Span,
    Timeline,
    of_resource,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values.claim_values import read_claim
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.timelines.recorder_support import (
    CLAIM,
)


class Watch:
    """A clock that a test sets, and what was due."""

    def __init__(self) -> None:
        self.now, self.due = 100.0, list[tuple[str, float]]()
        self.counted = list[Timeline]()
        self.recorder = TimelineRecorder(lambda node, when: self.due.append((node, when)), lambda: self.now,
                                         self.counted.append)

    def serve(self, claim: ClaimRef = CLAIM) -> None:
        """A claim is attached for, and served."""
        self.recorder.note([claim], "attach", 90.0, 95.0)
        self.recorder.served(claim, "node-0", 89.0)


@pytest.fixture
def watch() -> Watch:
    """A recorder that has seen nothing."""
    return Watch()


def test_timeline_is_due_when_the_pod_runs(watch: Watch) -> None:
    watch.serve()
    assert watch.recorder.to_write("node-0") == []
    watch.now = 101.0
    watch.recorder.running([CLAIM])
    assert watch.due == [("node-0", 100.0 + START_SECONDS), ("node-0", 101.0)]
    (found,) = watch.recorder.to_write("node-0")
    assert found.spans == (Span("attach", 90.0, 95.0), Span("start", 95.0, 101.0))
    assert watch.recorder.to_write("node-1") == []


def test_timeline_is_due_soon_where_the_pod_is_not_seen_to_run(watch: Watch) -> None:
    watch.serve()
    watch.now += START_SECONDS
    (found,) = watch.recorder.to_write("node-0")
    assert (found.created, found.node, len(found.spans)) == (89.0, "node-0", 1)


def test_pod_that_runs_twice_started_once(watch: Watch) -> None:
    watch.serve()
    watch.recorder.running([CLAIM])
    watch.now = 200.0
    watch.recorder.running([CLAIM])
    (found,) = watch.recorder.to_write("node-0")
    assert [span.step for span in found.spans] == ["attach", "start"]


def test_hop_after_the_claim_was_served_is_one_more_of_its_way(watch: Watch) -> None:
    """The scheduler allocated it anew, which serves it, and binds its pod a moment later."""
    watch.serve()
    watch.recorder.note([CLAIM], "bind", 95.0, 96.0)
    watch.recorder.served(CLAIM, "node-0", 89.0)
    watch.now = 101.0
    watch.recorder.running([CLAIM])
    (found,) = watch.recorder.to_write("node-0")
    assert found.spans == (Span("attach", 90.0, 95.0), Span("bind", 95.0, 96.0), Span("start", 96.0, 101.0))


def test_what_is_written_is_not_due_again_counts_once_and_is_still_known(watch: Watch) -> None:
    watch.serve()
    watch.recorder.running([CLAIM])
    (found,) = watch.recorder.to_write("node-0")
    watch.recorder.written(found)
    assert watch.recorder.to_write("node-0") == []
    assert watch.recorder.of("uid-train") == found
    assert watch.counted == [found]
    watch.recorder.written(found)
    assert watch.counted == [found], "what is written once more, after a reply that was lost, is not counted twice"


def test_claim_that_nobody_has_seen_attach_has_no_timeline(watch: Watch) -> None:
    watch.recorder.served(CLAIM, "node-0", 1.0)
    watch.recorder.running([CLAIM])
    assert (watch.due, watch.recorder.of("uid-train")) == ([], None)


def test_what_never_ends_is_forgotten(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    for number in range(4):
        watch.recorder.note([ClaimRef(f"a/{number}", str(number))], "attach", 1.0, 2.0)
    assert [watch.recorder.of(str(number)) is not None for number in range(4)] == [False, False, True, True]


def test_of_many_claims_the_last_ones_are_remembered(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SERVED", 2)
    for number in range(4):
        write(watch, ClaimRef(f"a/{number}", str(number)))
    assert [watch.recorder.of(str(number)) is not None for number in range(4)] == [False, False, True, True]


def test_of_a_claim_that_is_gone_nothing_is_remembered(watch: Watch) -> None:
    write(watch, CLAIM)
    watch.recorder.unserved(CLAIM.uid)
    assert watch.recorder.of(CLAIM.uid) is None


def test_claim_that_goes_while_its_timeline_is_written_is_not_remembered(watch: Watch) -> None:
    watch.serve()
    watch.recorder.running([CLAIM])
    (found,) = watch.recorder.to_write("node-0")
    watch.recorder.unserved(CLAIM.uid)
    watch.recorder.written(found)
    assert (watch.recorder.of(CLAIM.uid), watch.counted) == (None, [])


def test_served_claim_that_goes_before_its_timeline_is_written_is_counted_once(watch: Watch) -> None:
    """Its pod was short, or nobody watches pods that are bound."""
    watch.serve()
    (found,) = [each for each, _when in watch.recorder._served.values()]
    watch.recorder.gone(CLAIM.uid)
    watch.recorder.gone(CLAIM.uid)
    watch.recorder.written(found)
    assert watch.counted == [found]
    assert watch.recorder.of(CLAIM.uid) is None


def test_claim_that_goes_before_it_is_served_is_not_counted(watch: Watch) -> None:
    watch.recorder.note([CLAIM], "attach", 90.0, 95.0)
    watch.recorder.gone(CLAIM.uid)
    assert watch.counted == []


def write(watch: Watch, claim: ClaimRef) -> None:
    """A claim is served, its pod runs, and its timeline is written down."""
    watch.serve(claim)
    watch.recorder.running([claim])
    for found in watch.recorder.to_write("node-0"):
        watch.recorder.written(found)


def test_claim_that_is_gone_is_not_written(watch: Watch) -> None:
    watch.serve()
    watch.recorder.unserved("uid-train")
    watch.now += START_SECONDS
    assert watch.recorder.to_write("node-0") == []


def test_records_of_a_node_have_the_timeline_on_the_device_of_the_claim(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Online"),
              objects.resource("gpu-b", device="d2", serial="GPU-d2", state="Online"), objects.local_slice("GPU-d2"),
              objects.claim("train", objects.local_result()))
    bench.claim_steps.took("attach", [CLAIM], 90.0, 95.0)
    bench.claim_steps.over([read_claim(objects.claim("train"))], node="node-0")
    bench.claim_steps.timelines.running([CLAIM])
    bench.reconcile(NodeRecordsKey("node-0"))
    written = {name: of_resource(bench.api.one(COMPOSABLE_RESOURCES, name)) for name in ("gpu-a", "gpu-b")}
    assert written["gpu-a"] == ()
    assert [(each.claim, each.node, each.spans[0]) for each in written["gpu-b"]] == [
        ("default/train", "node-0", Span("attach", 90.0, 95.0))]


def test_timeline_that_is_not_due_when_the_records_are_written_has_a_turn_of_its_own(bench: Bench) -> None:
    """The queue keeps the earliest appointment of a node alone: the next one has to come from here."""
    bench.put(objects.claim("train", objects.local_result()))
    bench.claim_steps.took("attach", [CLAIM], 90.0, 95.0)
    began = time.time()
    bench.claim_steps.over([read_claim(objects.claim("train"))], node="node-0")
    bench.later.clear()
    bench.reconcile(NodeRecordsKey("node-0"))
    ((key, when),) = bench.later
    assert key == NodeRecordsKey("node-0")
    assert began + START_SECONDS <= when <= time.time() + START_SECONDS


def test_a_second_claim_of_a_device_is_written_beside_the_first(bench: Bench) -> None:
    bench.put(objects.resource("gpu-b", device="d2", serial="GPU-d2", state="Online"), objects.local_slice("GPU-d2"))
    for name in ("first", "second", "second"):
        bench.state.claims.replace_all([objects.claim(name, objects.local_result())])
        bench.claim_steps.took("attach", [ClaimRef(f"default/{name}", f"uid-{name}")], 90.0, 95.0)
        bench.claim_steps.over([read_claim(objects.claim(name))], node="node-0")
        bench.claim_steps.timelines.running([ClaimRef(f"default/{name}", f"uid-{name}")])
        bench.reconcile(NodeRecordsKey("node-0"))
    kept = of_resource(bench.api.one(COMPOSABLE_RESOURCES, "gpu-b"))
    assert [each.claim for each in kept] == ["default/first", "default/second"]
