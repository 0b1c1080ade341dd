# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done for held pods while their devices are on their way: a room on the node, finalizers on the claims."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Refused
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, pods
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey, NominationsKey
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import (
    announce,
    ask,
    choose,
    claim,
    gate_names,
    nominated,
    pod,
    reserved,
)


def test_pod_is_nominated_and_let_go_when_its_device_is_there(held: Bench) -> None:
    ask(held)
    choose(held)
    assert reserved(held) == [("train", "node-0")]
    assert held.fabric.attaches == [], "the room is kept while the device is on its way"
    held.run(1)
    assert len(held.fabric.attaches) == 1
    assert gate_names(held) == [pods.GATE]
    announce(held)
    held.run(1)
    raw = held.api.one(PODS, "train", "default")
    assert (gate_names(held), raw["status"]["nominatedNodeName"]) == ([], "node-0")
    verbs = [c.verb for c in held.api.writes(PODS)]
    assert verbs == ["merge_patch", "strategic_patch"], "the nomination must be there when the scheduler looks"


def test_pod_that_waits_no_more_is_not_nominated_again(held: Bench) -> None:
    ask(held)
    held.reconcile(GatesKey())
    assert [key for key, _when in held.later] == [NominationsKey(), GatesKey()]
    held.gating.ends.unreserve("pod-train")
    held.reconcile(NominationsKey())
    held.reconcile(NominationsKey())
    held.threads.stop(5.0)
    assert nominated(held) == ""


def test_nomination_that_failed_is_made_good_before_the_gate_goes(held: Bench) -> None:
    ask(held)
    held.api.fail("merge_patch", PODS, ApiError(500, "InternalError", "etcd is away"))
    held.reconcile(GatesKey())
    held.run(1)
    held.reconcile(NominationsKey())
    held.wait(lambda: held.api.writes(PODS), "a try")
    held.api.heal()
    announce(held)
    held.run(1)
    assert (gate_names(held), nominated(held)) == ([], "node-0")
    assert [c.verb for c in held.api.writes(PODS)][-1] == "strategic_patch"


def test_node_that_is_given_up_is_nominated_no_more(held: Bench) -> None:
    ask(held)
    held.fabric.answers = [Refused("E02: out of order")]
    choose(held)
    held.run(2)
    assert reserved(held) == []
    held.wait(lambda: nominated(held) == "", "the nomination's end")


def test_old_nomination_of_a_held_pod_takes_no_room(held: Bench) -> None:
    """An earlier engine had nominated it to a node that only this pod fills."""
    raw = pod("train")
    raw["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "8"}}}]
    raw["status"] = {"nominatedNodeName": "node-0"}
    held.put(claim("train"), raw)
    held.reconcile(GatesKey())
    assert reserved(held) == [("train", "node-0")]


@pytest.fixture
def at_once(held: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """What is done in the background is done when the pass ends."""
    monkeypatch.setattr(held.gating.nominations._background, "submit", lambda work, *args: work(*args))
    return held


def finalizers(bench: Bench) -> list[str]:
    """Those of the claim at the API server."""
    return list(bench.api.one(CLAIMS, "train", "default")["metadata"].get("finalizers") or [])


def with_finalizers(bench: Bench, *names: str) -> None:
    """A pod whose claim has finalizers already."""
    ask(bench)
    raw = bench.api.one(CLAIMS, "train", "default")
    bench.put({**raw, "metadata": {**raw["metadata"], "finalizers": list(names)}})


def test_claim_gets_the_schedulers_finalizer_beside_those_it_has(at_once: Bench) -> None:
    with_finalizers(at_once, "example.com/billing")
    choose(at_once)
    assert finalizers(at_once) == ["example.com/billing", claims.FINALIZER]
    (call,) = at_once.api.writes(CLAIMS)
    assert call.body == {"metadata": {"uid": "uid-train", "finalizers": ["resource.kubernetes.io/delete-protection"]}}


def test_claim_that_has_the_finalizer_is_not_written(at_once: Bench) -> None:
    with_finalizers(at_once, claims.FINALIZER)
    choose(at_once)
    assert at_once.api.writes(CLAIMS) == []


def test_claim_of_a_pod_that_was_let_go_is_the_schedulers(at_once: Bench) -> None:
    """Two writers of one claim at a time would cost the scheduler a try."""
    ask(at_once)
    at_once.reconcile(GatesKey())
    at_once.run(1)
    announce(at_once)
    at_once.run(1)
    at_once.reconcile(NominationsKey())
    assert (gate_names(at_once), at_once.api.writes(CLAIMS)) == ([], [])


@pytest.mark.parametrize("error", [Forbidden(403, "Forbidden", "no"), Conflict(409, "Conflict", "another uid"),
                                   NotFound(404, "NotFound", "gone")], ids=["forbidden", "other claim", "gone"])
def test_pod_is_served_also_without_the_finalizer(at_once: Bench, error: ApiError) -> None:
    ask(at_once)
    at_once.api.fail("strategic_patch", CLAIMS, error)
    choose(at_once)
    assert len(at_once.api.writes(CLAIMS)) == 1
    at_once.run(1)
    announce(at_once)
    at_once.run(1)
    assert (gate_names(at_once), finalizers(at_once)) == ([], [])
