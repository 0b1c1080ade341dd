# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows and tables of the report: every device in its place, none lost, whatever is absent."""

from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.composable.infra.tests.unit.filters.report_filters_support import (
    fabric_devices,
    fabric_report,
)

Json = dict[str, t.Any]


def resource(name: str, node: str = "node-0", *, used: bool = False, **status: str) -> Json:
    annotations = {"composable.infra/in-use": "true"} if used else None
    return {"metadata": {"name": name, "annotations": annotations, "creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"target_node": node, "model": "A100", "type": "gpu"}, "status": status or None}


def node(name: str, machine: str = "", *, ready: bool = True, **spec: object) -> Json:
    provider = {"providerID": f"fsas-cdi://{machine}"} if machine else {}
    return {"metadata": {"name": name}, "spec": {**provider, **spec},
            "status": {"conditions": [{"type": "Ready", "status": str(ready)}]}}


def machine(uid: str, *devices: str, model: str = "A100", fabric: int | None = 1) -> Json:
    return {"uid": uid, "name": f"m-{uid}", "fabric": fabric,
            "devices": [{"uid": d, "model": model, "fabric": fabric, "state": "attached"} for d in devices]}


def fabric(*machines: Json, free: list[Json] | None = None, problems: Json | None = None) -> Json:
    return {"machines": list(machines), "free": free or [], "problems": problems or {}}


@pytest.mark.parametrize(("status", "used", "words"), [
    ({}, False, "A100 on node node-0: not attached yet"),
    ({"state": "Online", "cdi_device_id": "d1"}, False, "A100 d1 on node node-0: idle"),
    ({"state": "Online", "cdi_device_id": "d1"}, True, "A100 d1 on node node-0: used by a claim"),
    ({"state": "Attaching", "error": "no GPU is free"}, False, "A100 on node node-0: no GPU is free")])
def test_sentence_of_a_device(status: dict[str, str], used: bool, words: str) -> None:
    (row,) = fabric_devices([resource("r1", used=used, **status)])
    assert (row["sentence"], row["used"]) == (words, used)


def test_rows_of_some_nodes_and_models_in_order() -> None:
    given = [resource("z", "node-1"), resource("b"), resource("a"), resource("q", "node-2")]
    assert [r["name"] for r in fabric_devices(given)] == ["a", "b", "z", "q"]
    assert [r["name"] for r in fabric_devices(given, nodes=["node-1", "node-2"])] == ["z", "q"]
    assert fabric_devices(given, models=["H100"]) == []


def test_tables() -> None:
    rows = fabric_devices([resource("r1", used=True, cdi_device_id="d1"), resource("r2", cdi_device_id="d2")])
    claims = [{"claim": "a/b", "waits_for": "1 x A100", "since": 1.0}, {"claim": "a/c", "waits_for": "", "since": 0.0}]
    tables = fabric_report(rows, nodes=[node("node-1"), node("node-0", "AA", unschedulable=True)], claims=claims,
                           fabric=fabric(machine("aa", "d1", "d2", "d3"), machine("bb"),
                                         free=[{"model": "A100", "fabric": 1, "free": 4}]))
    assert tables["summary"] == {"machines": 2, "nodes": 2, "attached": 3, "idle": 1, "free": 4, "waiting": 1}
    assert tables["models"] == [{"model": "A100", "fabric": 1, "free": 4, "attached": 3}]
    assert [(n["name"], n["machine"], n["attached"], n["used"], n["idle"], n["closed"]) for n in tables["nodes"]] == [
        ("node-0", "aa", 3, 1, 1, True), ("node-1", "", 0, 0, 0, False)]
    assert [c["claim"] for c in tables["claims"]] == ["a/b"]
    assert [d["device"] for d in tables["idle"]] == ["d2"]
    assert [(d["uid"], d["place"]) for d in tables["strangers"]] == [("d3", "m-aa")]


def test_problems_of_both_sides() -> None:
    rows = fabric_devices([resource("r1", error="it burns")])
    troubles = fabric(problems={"A100 on 1": "no answer", "x": "no answer"})
    tables = fabric_report(rows, nodes=[], claims=[], fabric=troubles)
    assert tables["problems"] == ["no answer", "A100 on node node-0: it burns"]


def test_claim_that_the_fabric_cannot_serve_is_a_problem() -> None:
    claims = [{"claim": "a/b", "waits_for": "a change", "refused": "no model satisfies it", "since": 1.0},
              {"claim": "a/c", "waits_for": "1 x A100", "refused": "", "since": 1.0}]
    tables = fabric_report([], nodes=[], claims=claims, fabric=fabric())
    assert tables["problems"] == ["claim a/b cannot be served: no model satisfies it"]


def test_nothing_at_all_is_a_report_too() -> None:
    tables = fabric_report([], nodes=[], claims=[], fabric=fabric())
    assert set(tables["summary"].values()) == {0}
    assert all(tables[name] == [] for name in ("models", "nodes", "claims", "idle", "strangers", "problems"))


def test_no_device_is_lost(rng: random.Random) -> None:
    for _round in range(30):
        uids = [f"d{i}" for i in range(rng.randrange(12))]
        known = rng.sample(uids, rng.randrange(len(uids) + 1))
        machines = [machine(str(i), *uids[i::3], model=f"M{i}", fabric=rng.choice([None, 1, 2])) for i in range(3)]
        rows = fabric_devices([resource(f"r{u}", used=rng.random() < 0.5, cdi_device_id=u) for u in known])
        nodes = [node(f"n{i}", str(i)) for i in range(3)]
        tables = fabric_report(rows, nodes=nodes, claims=[], fabric=fabric(*machines))
        used = [r["device"] for r in rows if r["used"]]
        strangers = [d["uid"] for d in tables["strangers"]]
        assert sorted([*used, *(d["device"] for d in tables["idle"]), *strangers]) == sorted(uids)
        assert sum(m["attached"] for m in tables["models"]) == sum(n["attached"] for n in tables["nodes"]) == len(uids)
