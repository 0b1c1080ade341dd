# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Timelines survive being written down, whatever is in the annotation; waits are counted once for each claim."""

from __future__ import annotations

import json

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.metrics import STEPS
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.histogram import (
    BOUNDS,
    TOTAL,
    quantile,
    waits,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import (
    ANNOTATION,
    KEPT,
    SHARE_WORDS,
    SHARES,
    START,
    WORDS,
    Span,
    Timeline,
    dump,
    node_steps,
    of_resource,
    parse,
)
from ansible_collections.composable.infra.tests.unit.reconcile import objects

TRAIN = Timeline("default/train", "u1", "node-0", 100.0,
                 (Span("request", 100.5, 100.75), Span("attach", 100.75, 102.5)),
                 (("OnBus", 102.625), ("Bound", 102.75)))


def test_what_is_written_is_read() -> None:
    assert parse(dump([TRAIN])) == (TRAIN,)


def test_text_has_a_version_and_moments_as_kubernetes_writes_them() -> None:
    told = json.loads(dump([TRAIN]))
    assert told["version"] == 1
    assert told["claims"][0]["hops"][1] == {"hop": "attach", "began": "1970-01-01T00:01:40.750000Z",
                                            "ended": "1970-01-01T00:01:42.500000Z"}


def test_only_the_newest_are_kept() -> None:
    many = [Timeline(f"default/c-{number}", str(number), "n", 1.0) for number in range(KEPT + 3)]
    assert [each.uid for each in parse(dump(many))] == [str(number) for number in range(3, KEPT + 3)]


@pytest.mark.parametrize("text", [
    "", "no JSON", "[]", "{}", "null", '{"version": 1}', '{"version": 2, "claims": []}', '{"version": 1, "claims": 7}',
    '{"version": 1, "claims": [{"claim": "a/b"}]}', '{"version": 1, "claims": [7]}',
    '{"version": 1, "claims": [{"claim": 7, "uid": "", "node": "", "created": "", "hops": []}]}'])
def test_what_cannot_be_read_is_nothing(text: str) -> None:
    assert parse(text) == ()


def test_hops_and_steps_that_are_not_known_are_left_out() -> None:
    told = json.loads(dump([TRAIN]))
    told["claims"][0]["hops"] += [{"hop": "<script>", "began": "2026-01-01T00:00:00Z", "ended": "2026-01-01T00:00:00Z"},
                                  {"hop": "gate", "began": "never", "ended": "never"}]
    told["claims"][0]["steps"].append({"step": "Exploded", "at": "2026-01-01T00:00:00Z"})
    assert parse(json.dumps(told)) == (TRAIN,)


def test_of_a_resource_without_any() -> None:
    raw = objects.resource("gpu-a")
    assert of_resource(raw) == ()
    raw["metadata"]["annotations"][ANNOTATION] = dump([TRAIN])
    assert of_resource(raw) == (TRAIN,)


def test_several_devices_make_one_hop_from_the_first_to_the_last() -> None:
    spans = (Span("attach", 1.0, 3.0), Span("attach", 0.5, 2.0), Span("request", 0.0, 0.5))
    merged = Timeline("a/b", "u", "n", 0.0, spans).merged()
    assert merged == (Span("request", 0.0, 0.5), Span("attach", 0.5, 3.0))


def test_every_hop_of_the_metrics_has_a_share_and_words() -> None:
    assert set(SHARES) == {*STEPS, START} == set(WORDS)
    assert set(SHARES.values()) == set(SHARE_WORDS)


def test_steps_of_an_earlier_attach_or_of_a_release_are_left_out() -> None:
    up = Evidence("Ready", "d1").with_step("OnBus", 5.0).with_step("Bound", 20.0)
    down = up.with_phase("Releasing").with_step("Idle", 30.0)
    assert node_steps(down, 10.0) == (("Bound", 20.0),)
    assert node_steps(None, 10.0) == ()


def test_waits_count_each_claim_once() -> None:
    found = {each.step: each for each in waits([TRAIN, TRAIN])}
    assert list(found) == ["request", "attach", TOTAL]
    assert (found["attach"].count, found["attach"].median, found[TOTAL].median) == (1, 1.75, 2.0)
    assert sum(found["attach"].counts) == 1
    assert found["attach"].counts[BOUNDS.index(3.0)] == 1


def test_waits_longer_than_all_bounds() -> None:
    (found, _total) = waits([Timeline("a/b", "u", "n", 0.0, (Span("attach", 0.0, 9999.0),))])
    assert found.counts[-1] == 1


def test_no_waits_of_nobody() -> None:
    assert waits([]) == []
    assert waits([Timeline("a/b", "u", "n", 0.0)]) == []


@pytest.mark.parametrize(("share", "value"), [(0.5, 2.0), (0.95, 4.0), (0.0, 1.0), (1.0, 4.0)])
def test_quantiles_are_values_that_were_measured(share: float, value: float) -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], share) == value
