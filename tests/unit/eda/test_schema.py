# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schema of the source's events fits what the source emits, for every reason, and nothing else."""

from __future__ import annotations

import copy
import json
import typing as t

import jsonschema
import pytest
import yaml

from ansible_collections.composable.infra.extensions.eda.plugins.event_source import claims as source
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims as kube_claims
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods as kube_pods
from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tests.unit.reconcile import objects

Json = dict[str, t.Any]
SCHEMA: Json = json.loads((ROOT / "extensions/eda/schemas/claims.json").read_text(encoding="utf-8"))
REASONS: list[str] = SCHEMA["properties"]["claims"]["properties"]["reason"]["enum"]
TIMES = {**dict.fromkeys(("settle", "gather", "interval"), 0.0), "retry": 30.0, "resync": 300.0, "release_after": 600.0,
         "served_within": 180.0}


def history(monkeypatch: pytest.MonkeyPatch) -> list[Json]:
    """Every event of a watcher that sees a claim and a held pod come and go, on a clock of its own."""
    now, told = 1000.0, []
    monkeypatch.setattr(f"{source.__name__}.time.monotonic", lambda: now)
    watcher = source.Watcher(TIMES, bool, kube_claims, kube_pods.held)

    def listen(until: float) -> None:
        nonlocal now
        while (due := watcher.due(now)) or now < until:
            if due:
                told.append(watcher.event(due, now))
            else:
                now = min(until, watcher.next_time())

    claim, pod = objects.claim("train", objects.pool_result()), objects.pod("held")
    pod["spec"]["schedulingGates"] = [{"name": kube_pods.GATE}]
    listen(now)
    watcher.changed("ADDED", claim, None)
    watcher.pod_changed("ADDED", pod, None)
    listen(now + 40)
    watcher.pod_changed("MODIFIED", {**pod, "status": {"nominatedNodeName": "node-0"}}, pod)
    listen(now + 40)
    watcher.pod_changed("DELETED", pod, pod)
    watcher.changed("DELETED", claim, claim)
    listen(now + 1000)
    return told


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Json]:
    """What the source emits."""
    return history(monkeypatch)


def test_every_event_fits_and_every_reason_occurs(events: list[Json]) -> None:
    for event in events:
        jsonschema.validate(event, SCHEMA)
    assert {event["claims"]["reason"] for event in events} == set(REASONS)
    assert {waiting["kind"] for event in events for waiting in event["claims"]["waiting"]} == {"Pod", "ResourceClaim"}
    assert {waiting["node"] for event in events for waiting in event["claims"]["waiting"]} == {"", "node-0"}


def test_what_ansible_rulebook_adds_fits(events: list[Json]) -> None:
    jsonschema.validate({**events[0], "meta": {"source": {"name": "Waiting claims"}, "uuid": "u"}}, SCHEMA)


@pytest.mark.parametrize("damage", [
    {"reason": "because"}, {"waiting": {}}, {"further": 1}, {"more": 0}, {"waiting": [{"uid": "u"}]},
    {"waiting": [{"uid": "u", "namespace": "n", "name": "n", "kind": "Node", "node": "", "allocated": ""}]}])
def test_other_events_do_not_fit(events: list[Json], damage: Json) -> None:
    event = copy.deepcopy(events[0])
    event["claims"].update(damage)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(event, SCHEMA)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert "claims" in yaml.safe_load(source.EXAMPLES)[0]["rules"][0]["condition"]
