# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happened: who asked, what was attached, returned or refused, when and why."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.composable.infra.controller.ui.past.audit import Audit
from ansible_collections.composable.infra.controller.ui.scope import Scope
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES, NODES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import CLAIM, ClaimRef
from ansible_collections.composable.infra.tests.unit.controller.ui.conftest import EVERYTHING, MINE, Looked, elsewhere
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects

Json = dict[str, t.Any]


class Told:
    """An audit with what the watch and the reporter have told it."""

    def __init__(self, looked: Looked, most: int = 100) -> None:
        self.history: list[Json] = []
        self.looked = looked
        self.audit = Audit(looked.bench.state, lambda: tuple(self.history), most=most)

    def see(self, kind: str, raw: Json, old: Json | None = None) -> None:
        seen = self.looked.bench.seen
        self.audit.object_changed(kind, COMPOSABLE_RESOURCES, seen(raw), seen(old) if old else None)

    def entries(self, scope: Scope = EVERYTHING) -> list[Json]:
        return list(self.audit.read(scope)["entries"])

    def whats(self, scope: Scope = EVERYTHING) -> list[str]:
        return [each["what"] for each in self.entries(scope)]


@pytest.fixture
def told(looked: Looked) -> Told:
    return Told(looked)


def of_claim(key: str, **more: t.Any) -> Json:
    """A ComposableResource that was made for a claim."""
    raw = objects.resource("gpu-a", created=0, **more)
    raw["metadata"]["annotations"][CLAIM] = ClaimRef(key, "uid-of-it").note
    return raw


def online(raw: Json) -> Json:
    return {**raw, "status": {"state": "Online", "cdi_device_id": "d-1", "device_id": "GPU-1"}}


def test_a_device_is_requested_attached_and_returned(told: Told) -> None:
    told.looked.put(elsewhere(objects.claim("train", pods=["worker"]), "mine"))
    new = of_claim("mine/train")
    told.see("ADDED", new)
    told.see("MODIFIED", online(new), new)
    told.see("MODIFIED", online(new), online(new))
    told.history.append({"time": time.time(), "reason": "Releasing", "about": "gpu-a", "message": "its hold is over",
                         "claims": []})
    told.see("DELETED", online(new), online(new))
    assert told.whats() == ["returned", "attached", "requested"]
    last = told.entries()[0]
    assert last | {"at": 0} == {"at": 0, "what": "returned", "device": "gpu-a", "uuid": "GPU-1", "model": A100,
                                "node": "node-0", "claims": ["mine/train"], "pods": ["worker"],
                                "why": "its hold is over"}


def test_an_attach_that_failed_says_why_once(told: Told) -> None:
    new = of_claim("mine/train")
    failed = {**new, "status": {"state": "Attaching", "error": "no power"}}
    told.see("ADDED", new)
    told.see("MODIFIED", failed, new)
    told.see("MODIFIED", failed, failed)
    assert [(each["what"], each.get("why")) for each in told.entries()] == [("failed", "no power"), ("requested", None)]
    told.see("DELETED", failed, failed)
    assert told.whats()[0] == "failed", "what had no device returned none"


def test_devices_that_were_there_are_no_news(told: Told) -> None:
    """A watch that begins tells all objects; their times are their own."""
    old = online(objects.resource("gpu-a", created=3600))
    told.see("ADDED", old)
    assert [(each["what"], each["why"]) for each in told.entries()] == [
        ("requested", "for no claim"), ("attached", "before this process started")]
    assert all(each["at"] < time.time() - 3000 for each in told.entries())


def test_a_refusal_says_whose_and_why(told: Told) -> None:
    told.history += [{"time": 5.0, "reason": "GateReleased", "about": "mine/train", "message": "no such model",
                      "claims": ["mine/train"]},
                     {"time": 6.0, "reason": "PodBound", "about": "mine/train", "message": "to node x", "claims": []}]
    assert told.entries() == [{"at": 5.0, "what": "refused", "claims": ["mine/train"], "pods": ["train"],
                               "why": "no such model"}]


def test_a_namespace_sees_its_own_without_sentences(told: Told) -> None:
    told.see("ADDED", of_claim("mine/train"))
    told.see("ADDED", of_claim("yours/secret"))
    told.see("ADDED", objects.resource("gpu-b"))
    told.history.append({"time": 5.0, "reason": "GateReleased", "about": "mine/train", "claims": ["mine/train"],
                         "message": "pod yours/secret came first"})
    told.history.append({"time": 6.0, "reason": "GateReleased", "about": "mine/train", "message": "both",
                         "claims": ["mine/train", "yours/secret"]})
    found = told.audit.read(MINE)
    assert [each["what"] for each in found["entries"]] == ["requested", "refused"]
    assert "yours" not in str(found)
    assert all("why" not in each for each in found["entries"])


def test_only_the_latest_are_kept_whatever_their_order(looked: Looked) -> None:
    told = Told(looked, most=10)
    for number in (*range(20, 40), *range(20)):
        told.see("ADDED", {**objects.resource(f"gpu-{number}", created=1000 - number)})
    assert [each["device"] for each in told.entries()] == [f"gpu-{number}" for number in range(39, 29, -1)]
    assert told.audit.read(EVERYTHING)["says"] == "These are the latest 10 entries."


def test_other_objects_are_no_entries(told: Told) -> None:
    told.audit.object_changed("ADDED", NODES, objects.node(), None)
    assert told.entries() == []
