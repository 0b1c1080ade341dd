# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The waits of the last day outlive processes, and each claim is counted once whatever is lost on the way."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CONFIG_MAPS
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Unreachable
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeRecordsKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.day_of_waits import (
    HOUR,
    HOURS,
    waits_of,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import Span, Timeline
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.waits_keeper import (
    FIELD,
    LOOK_SECONDS,
    NAME,
    WaitsKeeper,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values.claim_values import read_claim
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi
from ansible_collections.composable.infra.tests.unit.reconcile.timelines.recorder_support import (
    CLAIM,
)

NAMESPACE, NOW = "composable-infra", 500_000 * HOUR


class Kept:
    """A keeper on a fake API server."""

    def __init__(self, api: FakeApi, **options: t.Any) -> None:
        self.told, self.now = list[str](), NOW
        self.keeper = WaitsKeeper(api.client, NAMESPACE, self.told.append, clock=lambda: self.now, **options)

    def serve(self, *seconds: float) -> None:
        """Claims are served that waited so long."""
        for each in seconds:
            self.keeper.count(Timeline("default/a", "uid", "node-0", 0.0, (Span("attach", self.now - each, self.now),)))

    def claims(self) -> int:
        """How many claims are known."""
        rows = waits_of(self.keeper.known())
        return rows[-1].count if rows else 0


@pytest.fixture
def api() -> FakeApi:
    """It has the ConfigMap as it is shipped, without data."""
    made = FakeApi()
    made.put(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": NAMESPACE}})
    return made


def test_next_process_knows_what_was_counted_and_adds_to_it(api: FakeApi) -> None:
    first = Kept(api)
    first.serve(1.0, 2.0)
    first.keeper.keep()
    second = Kept(api)
    second.serve(4.0)
    assert second.claims() == 3
    second.keeper.keep()
    assert (Kept(api).claims(), second.claims()) == (3, 3)
    assert not any(first.told + second.told)


def test_page_of_a_process_that_stands_by_is_a_minute_behind_at_most(api: FakeApi) -> None:
    leader, standby = Kept(api), Kept(api)
    assert standby.claims() == 0
    leader.serve(1.0)
    leader.keeper.keep()
    assert standby.claims() == 0
    standby.now += LOOK_SECONDS
    assert standby.claims() == 1
    asked = len(api.calls)
    assert standby.claims() == 1
    assert len(api.calls) == asked
    assert {call.verb for call in api.calls if call.plural == "configmaps"} == {"get", "merge_patch"}
    assert len(api.writes(CONFIG_MAPS)) == 1, "who looks writes nothing"


def test_nothing_is_asked_for_where_nothing_is_new(api: FakeApi) -> None:
    kept = Kept(api)
    kept.keeper.keep()
    assert not api.calls
    kept.serve(1.0)
    kept.keeper.keep()
    asked = len(api.calls)
    kept.keeper.keep()
    assert len(api.calls) == asked


def test_write_that_failed_is_tried_again(api: FakeApi) -> None:
    kept = Kept(api)
    kept.serve(1.0)
    api.fail("merge_patch", CONFIG_MAPS, Unreachable("no answer"), times=1)
    kept.keeper.keep()
    assert "cannot be stored" in kept.told[-1]
    kept.serve(2.0)
    assert kept.claims() == 2
    for _turn in range(2):
        kept.keeper.keep()
    assert (Kept(api).claims(), kept.claims(), kept.told[-1]) == (2, 2, "")


def test_write_whose_answer_was_lost_is_not_added_twice(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, patch = Kept(api), api.merge_patch

    def lost(*args: t.Any, **more: t.Any) -> t.Any:
        patch(*args, **more)
        raise Unreachable("the answer was lost")

    kept.serve(1.0)
    monkeypatch.setattr(api, "merge_patch", lost)
    kept.keeper.keep()
    kept.serve(2.0)
    monkeypatch.undo()
    for _turn in range(3):
        kept.keeper.keep()
    assert (Kept(api).claims(), kept.claims()) == (2, 2)


def test_another_ones_counts_are_not_written_over(api: FakeApi) -> None:
    """Between the look and the write somebody else has written."""
    one, other = Kept(api), Kept(api)
    one.serve(1.0)
    other.serve(2.0)

    def between(call: t.Any) -> None:
        if call.verb == "merge_patch":
            api.before = None
            other.keeper.keep()

    api.before = between
    one.keeper.keep()
    assert "cannot be stored" in one.told[-1]
    one.keeper.keep()
    assert (one.told[-1], Kept(api).claims()) == ("", 2)


def test_what_cannot_be_read_is_not_written_over(api: FakeApi) -> None:
    api.fail("get", CONFIG_MAPS, Unreachable("no answer"))
    kept = Kept(api)
    kept.serve(1.0)
    kept.keeper.keep()
    assert not api.writes(CONFIG_MAPS)
    assert "cannot be read" in kept.told[-1]
    assert kept.claims() == 1, "what this process has seen is known all the same"
    api.heal()
    kept.keeper.keep()
    assert (Kept(api).claims(), kept.told[-1]) == (1, "")


def test_damaged_table_is_begun_anew(api: FakeApi) -> None:
    api.put(CONFIG_MAPS, {**api.one(CONFIG_MAPS, NAME, NAMESPACE), "data": {FIELD: "what?"}})
    kept = Kept(api)
    kept.serve(1.0)
    kept.keeper.keep()
    assert "start empty" in kept.told[0]
    assert Kept(api).claims() == 1


def test_after_a_day_they_are_gone(api: FakeApi) -> None:
    kept = Kept(api)
    kept.serve(1.0)
    kept.keeper.keep()
    kept.now += (HOURS + 1) * HOUR
    assert kept.claims() == 0
    kept.serve(2.0, 3.0)
    kept.keeper.keep()
    late = Kept(api)
    late.now = kept.now
    assert late.claims() == 2
    assert "500000" not in api.one(CONFIG_MAPS, NAME, NAMESPACE)["data"][FIELD]


def test_without_the_right_to_it_nothing_is_asked_for(api: FakeApi) -> None:
    kept = Kept(api, enabled=False)
    kept.serve(1.0)
    kept.keeper.keep()
    assert (kept.claims(), api.calls) == (1, [])


def test_engine_counts_a_claim_once_when_its_timeline_is_written(bench: Bench, config: EngineConfig) -> None:
    engine = ControllerManager(bench.api.client, bench.fabric, config, events=False)
    bench.use(engine)
    bench.put(objects.resource("gpu-b", device="d2", serial="GPU-d2", state="Online"), objects.local_slice("GPU-d2"),
              objects.claim("train", objects.local_result()))
    engine.claim_steps.took("attach", [CLAIM], time.time() - 7.0, time.time() - 2.0)
    engine.claim_steps.over([read_claim(objects.claim("train"))], node="node-0")
    engine.claim_steps.timelines.running([CLAIM])
    assert waits_of(engine.waits.known()) == []
    for _turn in range(2):
        engine.workers.reconcile(NodeRecordsKey("node-0"))
    rows = waits_of(engine.waits.known(), "default")
    assert [(row.step, row.count) for row in rows] == [("attach", 1), ("start", 1), ("total", 1)]
    engine.stop()
