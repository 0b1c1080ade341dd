# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may see one namespace sees no name of another: not in rows, not in changes, not in stories."""

from __future__ import annotations

import json
import time
from dataclasses import fields

import pytest

from ansible_collections.composable.infra.controller.ui.rows import ClaimRow, FabricRow, ProcessRow
from ansible_collections.composable.infra.controller.ui.scope import FIELDS, Scope
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import Span, Timeline, dump
from ansible_collections.composable.infra.tests.unit.controller.ui.conftest import EVERYTHING, MINE, Looked, elsewhere
from ansible_collections.composable.infra.tests.unit.reconcile import objects

# Every name that another tenant has chosen, or that belongs to it alone.
SECRETS = ("rival", "secret-claim", "secret-pod", "gpu-b", "node-1", "machine-1")


@pytest.fixture
def shared(looked: Looked) -> Looked:
    """Two tenants: ``mine`` has a device on node-0 and a claim that waits, ``rival`` one on node-1."""
    mine = elsewhere(objects.claim("train", objects.local_result(), pods=["train-pod"]), "mine")
    waits = elsewhere(objects.claim("more"), "mine")
    theirs = elsewhere(objects.claim("secret-claim", objects.local_result(pool="node-1"), node="node-1",
                                     pods=["secret-pod"]), "rival")
    kept = {"composable.infra/timelines": dump([Timeline("rival/secret-claim", "u", "node-1", 1.0,
                                                         (Span("attach", 1.0, 2.0),))])}
    resource = objects.resource("gpu-b", device="d2", serial="GPU-d2", state="Online", node="node-1")
    resource["metadata"]["annotations"] |= kept
    looked.put(objects.node("node-1", "machine-1"), mine, waits, theirs, resource,
               objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Online"),
               objects.local_slice("GPU-d1"), objects.local_slice("GPU-d2", node="node-1"))
    looked.reasons["mine/more"] = WaitReason(
        "mine/more", "1 x A100: behind rival/secret-claim; attached: 1 x node-1, 1 x node-0 (pod secret-pod)", 5.0,
        {"position": 2, "of": 3, "nodes": {"node-1": 1}})
    looked.view.refresh()
    return looked


def test_everything_shows_all_of_it(shared: Looked) -> None:
    text = shared.view.snapshot(EVERYTHING)
    assert [name for name in SECRETS if name not in text] == []


def test_a_namespace_sees_its_own_claims_and_the_sums(shared: Looked) -> None:
    rows = json.loads(shared.view.snapshot(MINE))["rows"]
    assert sorted(rows) == ["claim/mine/more", "claim/mine/train", "fabric/1", "process"]
    assert rows["claim/mine/train"]["pods"] == ["train-pod"]
    assert rows["fabric/1"]["models"][0]["states"] == {"in-use": 1}


def test_a_namespace_sees_no_name_of_another(shared: Looked) -> None:
    text = shared.view.snapshot(MINE)
    assert [name for name in SECRETS if name in text] == []
    row = json.loads(text)["rows"]["claim/mine/more"]
    assert (row["position"], row["of"], "waits_for" in row) == (2, 3, False)


def test_changes_show_no_name_of_another(shared: Looked) -> None:
    position = shared.view.position
    shared.put(elsewhere(objects.claim("secret-claim-2"), "rival"))
    shared.reasons["mine/more"] = WaitReason("mine/more", "1 x A100: behind rival/secret-claim-2", 6.0,
                                             {"position": 1, "of": 3})
    shared.view.refresh()
    missed = shared.view.since(position)
    assert missed is not None
    assert len(missed) == 1
    text = missed[0].text(MINE)
    assert list(json.loads(text)["rows"]) == ["claim/mine/more"]
    assert "rival" not in text
    assert "secret" not in text
    assert "secret-claim-2" in missed[0].text(EVERYTHING)


def test_change_that_shows_a_namespace_nothing_is_not_sent_to_it(shared: Looked) -> None:
    shared.put(elsewhere(objects.claim("secret-claim-3", objects.local_result("gpu-7", pool="node-1")), "rival"))
    change = shared.view.refresh()
    assert change is not None
    assert change.text(MINE) == ""


@pytest.mark.parametrize("key", ["claim/rival/secret-claim", "device/gpu-a", "device/gpu-b", "node/node-0",
                                 "node/node-1", "machine/machine-1", "process", "claim/mine/nothing", ""])
def test_a_namespace_is_told_no_other_story(shared: Looked, key: str) -> None:
    assert shared.stories.of(key, MINE, shared.view) is None


def test_a_namespace_is_told_the_story_of_its_own_claim(shared: Looked) -> None:
    for name in ("train", "more"):
        told = shared.stories.of(f"claim/mine/{name}", MINE, shared.view)
        assert told is not None
        assert not [secret for secret in SECRETS if secret in json.dumps(told)]
    assert shared.stories.of("claim/rival/secret-claim", Scope("rival"), shared.view) is not None


def test_waits_are_of_the_namespace_s_own_claims(shared: Looked) -> None:
    assert shared.stories.waits(MINE)["waits"] == []
    for claim, seconds in (("rival/secret-claim", 40.0), ("mine/train", 2.0), ("rival/secret-claim", 50.0)):
        began = time.time() - 60.0
        shared.waits.count(Timeline(claim, claim, "node-0", began, (Span("attach", began, began + seconds),)))
    counts = {scope: [(row["step"], row["count"], row["longest"]) for row in shared.stories.waits(scope)["waits"]]
              for scope in (MINE, Scope("rival"), Scope("nobody"), EVERYTHING)}
    assert [rows[0] if rows else None for rows in counts.values()] == [
        ("attach", 1, pytest.approx(2.0)), ("attach", 2, pytest.approx(50.0)), None, ("attach", 3, pytest.approx(50.0))]


def test_the_process_s_troubles_and_leader_are_nobody_s_business(shared: Looked) -> None:
    process = json.loads(shared.view.snapshot(MINE))["rows"]["process"]
    assert not {"troubles", "leader", "manager"} & process.keys()


def test_every_field_that_is_shown_is_one_of_its_row() -> None:
    rows = {"process": ProcessRow, "fabric": FabricRow, "claim": ClaimRow}
    assert {kind: shown - {each.name for each in fields(rows[kind])} for kind, shown in FIELDS.items()} == {
        kind: set() for kind in rows}
