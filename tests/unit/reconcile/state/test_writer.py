# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conditions: written only onto the allocation that they were decided for."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Conflict, Forbidden
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import (
    MarkClaim,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import Call

MARK = MarkClaim("node-0", "1 x A100 attached", "uid-train", "default", "train", objects.RESCHEDULE)
RESULT = objects.pool_result()


def conditions(bench: Bench) -> list[dict[str, t.Any]]:
    """Conditions of the claim's only device at the API server."""
    devices = bench.api.one(CLAIMS, "train", "default")["status"].get("devices") or [{"conditions": []}]
    found: list[dict[str, t.Any]] = devices[0]["conditions"]
    return found


def test_condition_is_written_with_its_reason(bench: Bench) -> None:
    bench.put(objects.claim("train", RESULT))
    assert bench.writer.claims.mark(MARK)
    (condition,) = conditions(bench)
    assert (condition["type"], condition["status"], condition["reason"], condition["message"]) == (
        objects.RESCHEDULE, "True", "DeviceConditionUpdated", "1 x A100 attached")
    assert bench.writer.changes == 1


def test_condition_is_seen_at_once_by_the_next_pass(bench: Bench) -> None:
    bench.put(objects.claim("train", RESULT))
    bench.writer.claims.mark(MARK)
    (claim,) = node_snapshot(bench.state, "node-0").claims
    assert claim.phase == "reschedule"


def test_condition_is_written_once(bench: Bench) -> None:
    bench.put(objects.claim("train", RESULT))
    assert bench.writer.claims.mark(MARK)
    assert not bench.writer.claims.mark(MARK)
    assert len(bench.api.writes(CLAIMS)) == 1


def test_write_carries_uid_and_version_of_what_was_decided_on(bench: Bench) -> None:
    bench.put(objects.claim("train", RESULT))
    (seen,) = bench.state.claims.list()
    bench.writer.claims.mark(MARK)
    (call,) = bench.api.writes(CLAIMS)
    assert call.body["metadata"] == {k: seen["metadata"][k] for k in ("name", "namespace", "uid", "resourceVersion")}
    assert call.subresource == "status"


def test_claim_changed_elsewhere_is_read_again_and_marked(bench: Bench) -> None:
    raw = objects.claim("train", RESULT)
    bench.put(raw)
    bench.api.put(CLAIMS, {**raw, "metadata": {**raw["metadata"], "labels": {"new": "x"}}})
    assert bench.writer.claims.mark(MARK)
    assert [c.verb for c in bench.api.calls if c.plural == "resourceclaims"] == ["apply", "get", "apply"]
    assert conditions(bench)[0]["type"] == objects.RESCHEDULE


@pytest.mark.parametrize("now", [
    objects.claim("train", objects.pool_result("a100-5")), objects.claim("train"),
    objects.claim("train", RESULT, node="node-1"),
], ids=["another device", "deallocated", "another node"])
def test_other_allocation_is_not_marked(bench: Bench, now: dict[str, t.Any]) -> None:
    bench.put(objects.claim("train", RESULT))
    bench.api.put(CLAIMS, now)
    assert not bench.writer.claims.mark(MARK)
    assert "devices" not in bench.api.one(CLAIMS, "train", "default")["status"]
    assert bench.writer.changes == 0


def test_claim_of_that_name_born_anew_is_not_marked(bench: Bench) -> None:
    raw = objects.claim("train", RESULT)
    bench.put(raw)
    bench.api.put(CLAIMS, {**raw, "metadata": {**raw["metadata"], "uid": "uid-other"}})
    assert not bench.writer.claims.mark(MARK)


def test_claim_that_somebody_else_failed_meanwhile_is_not_marked(bench: Bench) -> None:
    raw = objects.claim("train", RESULT)
    bench.put(raw)
    told = {**raw["status"], "devices": [objects.told(RESULT, objects.FAILED)]}
    bench.api.put(CLAIMS, {**raw, "status": told})
    assert not bench.writer.claims.mark(MARK)


def test_claim_that_changes_all_the_time_is_given_up(bench: Bench) -> None:
    raw = objects.claim("train", RESULT)
    bench.put(raw)

    def change(call: Call) -> None:
        if call.verb == "apply":
            bench.api.put(CLAIMS, raw)

    bench.api.before = change
    assert not bench.writer.claims.mark(MARK)
    assert len(bench.api.writes(CLAIMS)) == 3


@pytest.mark.parametrize("result", [objects.local_result(), None], ids=["a device of the node", "none"])
def test_claim_that_was_allocated_anew_before_the_write_is_not_marked(
    bench: Bench, result: dict[str, t.Any] | None
) -> None:
    bench.put(objects.claim("train", *([result] if result else [])))
    assert not bench.writer.claims.mark(MARK)
    assert bench.api.writes() == []


def test_claim_that_was_allocated_on_another_node_before_the_write_is_not_marked(bench: Bench) -> None:
    bench.put(objects.claim("train", RESULT, node="node-1"))
    assert not bench.writer.claims.mark(MARK)
    assert conditions(bench) == []


def test_claim_that_is_unknown_is_not_marked(bench: Bench) -> None:
    assert not bench.writer.claims.mark(MARK)
    assert bench.api.calls == []


def test_claim_that_is_gone_is_not_marked(bench: Bench) -> None:
    bench.put(objects.claim("train", RESULT))
    bench.api.objects.clear()
    assert not bench.writer.claims.mark(MARK)


def test_claim_that_is_gone_after_a_conflict_is_not_marked(bench: Bench) -> None:
    bench.put(objects.claim("train", RESULT))
    bench.api.objects.clear()
    bench.api.fail("apply", CLAIMS, Conflict(409, "Conflict", "changed"))
    assert not bench.writer.claims.mark(MARK)


def test_refusal_is_raised(bench: Bench) -> None:
    bench.put(objects.claim("train", RESULT))
    bench.api.fail("apply", CLAIMS, Forbidden(403, "Forbidden", "no"))
    with pytest.raises(Forbidden):
        bench.writer.claims.mark(MARK)
