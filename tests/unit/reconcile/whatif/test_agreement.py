# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A capture answers as the live cluster does: the same planners, from what a file holds."""

from __future__ import annotations

import copy
import random
import typing as t
from collections import Counter

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import LEASES
from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.agent_leases import (
    AGENT_LABELS,
    AGENT_LEASE,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.dry_run import forecast
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.explain import explain
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif import capture_file
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.answer import answer
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.captured_engine import engine_of
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.changes import changed
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, rows
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.conftest import MANAGER
from ansible_collections.composable.infra.tests.unit.reconcile.random_nodes import NODES
from ansible_collections.composable.infra.tests.unit.reconcile.whatif.agreement_support import (
    MOST_RUNS,
    RUNS,
    Quiet,
    clear,
    crowd,
)
from ansible_collections.composable.infra.tests.unit.reconcile.whatif.conftest import TakeCapture

EXPECTED = {"Reserve", "ReleaseGate", "CreateResource", "SetSize", "DeleteResource", "MarkClaim", "Detach"}


def test_a_capture_is_planned_as_the_live_cluster(quiet: Quiet, captured: TakeCapture, rng: random.Random) -> None:
    engine, bench = quiet
    kinds: Counter[str] = Counter()
    for number in range(MOST_RUNS):
        if number >= RUNS and kinds.keys() >= EXPECTED:
            break
        clear(bench)
        crowd(bench, rng)
        capture = captured(bench)
        engine.state.snapshot, engine.state.moment = capture.fabric, capture.taken
        live, replayed = forecast(engine), forecast(engine_of(capture))
        assert live.as_dicts() == replayed.as_dicts()
        assert live.wait_reasons == replayed.wait_reasons
        assert explain(engine) == explain(engine_of(capture))
        assert answer(changed(capture, [])) == answer(capture)
        kinds.update(type(action).__name__ for action in live.actions)
    assert kinds.keys() >= EXPECTED


def test_asking_changes_no_capture(quiet: Quiet, captured: TakeCapture, rng: random.Random) -> None:
    """Whatever is asked, and however often: the next question finds the same."""
    _engine, bench = quiet
    for _unused in range(RUNS):
        clear(bench)
        crowd(bench, rng)
        capture = captured(bench)
        before, first = copy.deepcopy(capture_file.as_document(capture)), answer(capture)
        for change in random_changes(rng, capture_file.as_document(capture)):
            answer(changed(capture, [change]))
        assert capture_file.as_document(capture) == before
        assert answer(capture) == first


def random_changes(rng: random.Random, document: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    """One of each kind that this capture allows."""
    attached = [device["uid"] for machine in document["fabric"]["machines"] for device in machine["devices"]]
    owned = {(raw.get("status") or {}).get("cdi_device_id") for raw in document["objects"]["composableresources"]}
    lost = [uid for uid in attached if uid in owned]
    return [{"change": "add_devices", "model": A100, "fabric": 1, "count": rng.randrange(1, 9)},
            {"change": "add_pods", "model": A100, "count": rng.randrange(1, 4), "devices_each": rng.randrange(1, 3)},
            {"change": "drain_node", "node": rng.choice(NODES)}, {"change": "lose_node", "node": rng.choice(NODES)},
            {"change": "settings", "settings": {"device_no_removal_duration": rng.choice((0, 60, 86400))}},
            {"change": "settings", "settings": {"handover": "reschedule", "unserved": "wait"}},
            *([{"change": "lose_devices", "devices": [rng.choice(lost)]}] if lost else [])]


def test_many_small_changes_are_one_large_one(quiet: Quiet, captured: TakeCapture, rng: random.Random) -> None:
    _engine, bench = quiet
    for _unused in range(RUNS):
        clear(bench)
        crowd(bench, rng)
        capture, first, second = captured(bench), rng.randrange(1, 5), rng.randrange(1, 5)

        def more(count: int, kind: str) -> dict[str, t.Any]:
            return {"change": kind, "model": A100, "count": count}

        one = [more(first + second, "add_devices"), more(first + second, "add_pods")]
        many = [more(first, "add_devices"), more(second, "add_devices"), more(first, "add_pods"),
                more(second, "add_pods")]
        assert answer(changed(capture, one)) == answer(changed(capture, many))


def lease(node: str, holder: str) -> dict[str, t.Any]:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {**objects.meta(AGENT_LEASE + node, "composable-infra"), "labels": dict(AGENT_LABELS)},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}}


@pytest.mark.parametrize(("leases", "node", "said"), [
    ([lease("node-0", "somebody")], "node-0", ""), ([lease("node-0", "")], "", "no longer renews its Lease"),
    ([], "", "node node-0 has no node agent")])
def test_node_agents_are_captured(held: Bench, captured: TakeCapture, leases: list[dict[str, t.Any]], node: str,
                                  said: str) -> None:
    """A node whose agent is dead gets no device, as in the live cluster."""
    for each in leases:
        held.api.put(LEASES, each)
    gated_pods.ask(held)
    found = answer(captured(held, EngineConfig.from_dict({"device_info": rows(), "fabric": MANAGER})))
    claim = found.claims["default/train"]
    assert claim.node == node
    assert said in claim.says


def test_a_capture_has_nobody_to_ask(held: Bench, captured: TakeCapture) -> None:
    """Planning reads no API server: the client would raise."""
    gated_pods.ask(held)
    capture = captured(held)
    calls = len(held.api.calls), held.fabric.reads
    engine = engine_of(capture)
    forecast(engine)
    assert (len(held.api.calls), held.fabric.reads) == calls
    with pytest.raises(AttributeError, match="a capture has no API server \\(raw\\)"):
        engine.client.raw("GET", "/api")
