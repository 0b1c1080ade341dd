# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judge of runs on the lab finds each violation, and finds none in a good run."""

from __future__ import annotations

import dataclasses
import json
import typing as t
from collections import Counter
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.tests.chaos.on_lab import page, record
from ansible_collections.composable.infra.tests.chaos.on_lab.history import History, ResourceTimes, Use
from ansible_collections.composable.infra.tests.chaos.on_lab.judge import (
    Users,
    created_requests,
    held_too_long,
    judge,
)
from ansible_collections.composable.infra.tests.chaos.on_lab.run import LabOutcome

Json = dict[str, t.Any]
MACHINE, MODEL = "machine-1", "A100"
SERIALS = {"dev-1": "GPU-1", "dev-2": "GPU-2"}


def effect(what: str, uid: str, at: float) -> Json:
    """Return an entry of the emulator's log. The entry of a detach names no machine."""
    return {"effect": f"{what} {uid} at {MACHINE}", "device": uid, "model": MODEL,
            "machine": MACHINE if what == "attached" else None, "time": at}


@pytest.fixture
def history() -> History:
    """Return a run in which one device was requested, allocated to claim c, and returned after c
    was deleted.
    """
    made = History(Client(Connection("https://api.example")), lambda point: None)
    made.resources["uid-1"] = ResourceTimes("r-1", "node-1", MODEL, 10.0, asked=True, machine=MACHINE,
                                            devices=["dev-1"], owns="dev-1", owned_since=12.0)
    made.uses.append(Use("c", "GPU-1", 13.0, 20.5))
    return made


GOOD = [effect("attached", "dev-1", 11.0), effect("detached", "dev-1", 30.0)]


def judged(effects: list[Json], history: History, users: Users | None = None) -> str:
    """Return the sentences as one text."""
    return "; ".join(judge(effects, SERIALS, history, Counter(), users or Users(deleted={"c": 20.0})))


def test_nothing_is_wrong(history: History) -> None:
    assert not judged(GOOD, history)


def test_device_that_a_claim_has_is_stolen(history: History) -> None:
    stolen = judged([GOOD[0], effect("detached", "dev-1", 15.0)], history)
    assert stolen == "theft: dev-1 was detached, claim c has it"


@pytest.mark.parametrize("at", [12.5, 20.2, 25.0])
def test_detach_before_the_claim_or_after_its_deletion_is_none(history: History, at: float) -> None:
    assert not judged([GOOD[0], effect("detached", "dev-1", at)], history)


def test_claim_that_lost_its_device_by_itself_is_judged_in_favour(history: History) -> None:
    history.uses[0].until = 16.0
    assert not judged([GOOD[0], effect("detached", "dev-1", 15.0)], history, Users())


def test_two_devices_for_one_request(history: History) -> None:
    more = judged([*GOOD, effect("attached", "dev-2", 12.0)], history)
    assert more == f"double attachment: 2 devices came to {MACHINE} for 1 requests of {MODEL}"


def test_device_placed_by_hand_that_left_since_was_asked_for(history: History) -> None:
    effects = [*GOOD, effect("attached", "dev-2", 12.5), effect("detached", "dev-2", 31.0)]
    assert "double" in judged(effects, history)
    users = Users(deleted={"c": 20.0}, placed={"dev-2": 12.0}, ambiguous={"dev-2"})
    assert not judged(effects, history, users)


def test_device_placed_by_hand_counts_where_it_was_placed(history: History) -> None:
    """Its earlier and later attaches elsewhere are no requests of the administrator."""
    users = Users(deleted={"c": 20.0}, placed={"dev-2": 12.0}, ambiguous={"dev-2"})
    elsewhere = {**effect("attached", "dev-2", 32.0), "machine": "machine-2"}
    effects = [*GOOD, effect("attached", "dev-2", 12.5), effect("detached", "dev-2", 31.0)]
    assert "2 devices" not in judged([*effects, elsewhere], history, users)
    assert "1 devices came to machine-2 for 0 requests" in judged([*effects, elsewhere], history, users)


def test_request_that_only_the_audit_log_has_counts(history: History) -> None:
    created = Counter({(MACHINE, MODEL): 2})
    assert not judge([*GOOD, effect("attached", "dev-2", 12.0)], SERIALS, history, created, Users({"c": 20.0}))


def test_audit_log_is_counted_from_a_position_on(tmp_path: Path) -> None:
    def entry(node: str, code: int, **more: str) -> str:
        return json.dumps({"stage": "ResponseComplete", "verb": "create", "responseStatus": {"code": code},
                           "objectRef": {"resource": "composableresources"},
                           "requestObject": {"spec": {"target_node": node, "model": MODEL}}, **more}) + "\n"

    path = tmp_path / "audit.log"
    old = entry("node-0", 201)
    path.write_text(old + entry("node-0", 201) + entry("node-0", 409) + entry("node-1", 201, stage="RequestReceived")
                    + entry("node-1", 201)[:-9], encoding="utf-8")
    assert created_requests(path, len(old)) == {(machine_uuid("node-0"), MODEL): 1}


def test_request_that_was_never_asked_for_counts_for_nothing(history: History) -> None:
    history.resources["uid-1"].asked = False
    assert "1 devices came" in judged(GOOD, history)


def test_resource_with_two_devices(history: History) -> None:
    history.resources["uid-1"].devices.append("dev-2")
    assert "r-1 had dev-1 and dev-2" in judged(GOOD, history)


class TestAdministratorsDevice:
    """dev-2 was attached by hand at 12."""

    EFFECTS: t.ClassVar = [*GOOD, effect("attached", "dev-2", 12.5)]

    @pytest.fixture
    def users(self) -> Users:
        return Users(deleted={"c": 20.0}, placed={"dev-2": 12.0})

    def test_it_stays(self, history: History, users: Users) -> None:
        assert not judged(self.EFFECTS, history, users)

    def test_it_is_detached(self, history: History, users: Users) -> None:
        gone = judged([*self.EFFECTS, effect("detached", "dev-2", 40.0)], history, users)
        assert gone == "theft: an administrator's device dev-2 was detached"

    def test_it_is_adopted(self, history: History, users: Users) -> None:
        history.resources["uid-2"] = ResourceTimes("r-2", "node-1", MODEL, 30.0, asked=True, machine=MACHINE,
                                                   devices=["dev-2"])
        assert "r-2 adopted an administrator's device dev-2" in judged(self.EFFECTS, history, users)

    def test_it_was_somebodys_before(self, history: History, users: Users) -> None:
        """A ComposableResource of the previous run had it, and returned it."""
        history.resources["uid-2"] = ResourceTimes("r-2", "node-1", MODEL, 2.0, asked=True, machine=MACHINE,
                                                   devices=["dev-2"], owned_since=3.0, gone=10.0)
        assert not judged(self.EFFECTS, history, users)

    def test_nobody_can_tell_it_from_one_that_was_asked_for(self, history: History, users: Users) -> None:
        users.ambiguous.add("dev-2")
        assert not judged([*self.EFFECTS, effect("detached", "dev-2", 40.0)], history, users)

    def test_somebody_waited_for_one_there(self, history: History) -> None:
        assert history.ambiguous(MACHINE, MODEL, 11.0, 1.0)
        assert not history.ambiguous(MACHINE, MODEL, 14.0, 1.0)
        assert not history.ambiguous(MACHINE, "H100", 11.0, 1.0)


class TestHistory:
    """The history that the watches record."""

    def test_use_begins_when_claim_and_slice_are_known_and_ends_with_the_allocation(self, history: History) -> None:
        history.uses.clear()
        claim = self._claim({"devices": {"results": [{"driver": "d", "pool": "node-1", "device": "gpu-0"}]}})
        history._on_claim("ADDED", claim, None)
        assert not history.uses
        history._on_slice("ADDED", self._slice("gpu-0", "GPU-2"), None)
        assert [(use.claim, use.uuid, use.until) for use in history.uses] == [("c", "GPU-2", float("inf"))]
        history._on_claim("MODIFIED", self._claim(None), claim)
        assert history.uses[0].until < float("inf")

    def test_name_that_a_slice_shows_no_more_tells_nothing(self, history: History) -> None:
        history.uses.clear()
        history._on_slice("ADDED", self._slice("gpu-0", "GPU-1"), None)
        history._on_slice("MODIFIED", self._slice("gpu-1", "GPU-2"), None)
        history._on_claim("ADDED", self._claim({"devices": {"results": [
            {"driver": "d", "pool": "node-1", "device": "gpu-0"}]}}), None)
        assert not history.uses

    def test_two_owners_of_a_device(self, history: History) -> None:
        history._on_resource("ADDED", self._resource("uid-2", "dev-1"), None)
        assert judged(GOOD, history).startswith("double attachment: device dev-1 belongs to r-uid-2 and r-1")

    def test_device_that_was_returned_has_no_owner(self, history: History) -> None:
        history._on_resource("MODIFIED", self._resource("uid-1", ""), None)
        history._on_resource("ADDED", self._resource("uid-2", "dev-1"), None)
        assert not judged(GOOD, history)

    def test_points_are_told_once(self) -> None:
        told: list[str] = []
        made = History(Client(Connection("https://api.example")), told.append)
        intent = {"composable.infra/attach": '{"machine": "m", "asked": "2026-01-01T00:00:00.000000Z", "present": []}'}
        states = [self._resource("u", ""), self._resource("u", "", intent), self._resource("u", "", intent),
                  self._resource("u", "dev-1", intent), self._resource("u", "dev-1", intent, "Detaching")]
        for state in states:
            made._on_resource("MODIFIED", state, None)
        assert told == ["created", "intended", "owned", "deleting"]

    @staticmethod
    def _claim(allocation: Json | None) -> Json:
        return {"metadata": {"name": "c", "uid": "claim-uid"}, "status": {"allocation": allocation}}

    @staticmethod
    def _slice(name: str, uuid: str) -> Json:
        device = {"name": name, "attributes": {"uuid": {"string": uuid}}}
        return {"metadata": {"name": "slice"}, "spec": {"driver": "d", "nodeName": "node-1", "pool": {"name": "node-1"},
                                                        "devices": [device]}}

    @staticmethod
    def _resource(uid: str, device: str, annotations: Json | None = None, state: str = "") -> Json:
        return {"metadata": {"name": f"r-{uid}", "uid": uid, "annotations": annotations or {}},
                "spec": {"target_node": "node-1", "model": MODEL}, "status": {"cdi_device_id": device, "state": state}}


def test_pod_is_held_for_too_long() -> None:
    found = held_too_long([("a", 0.0), ("b", 60.0)], 0.0, 101.0, 55.0)
    assert found == ["held too long: pod a is held for more than 55 s"]


def test_time_without_a_leader_does_not_count() -> None:
    assert not held_too_long([("a", 0.0)], 50.0, 101.0, 55.0)


class TestRecord:
    """Runs are recorded by seed."""

    def test_later_run_of_a_seed_replaces_the_earlier(self, tmp_path: Path) -> None:
        path = tmp_path / "folder" / "lab.jsonl"
        first, second = LabOutcome(2, ("theft: x",), 3, 10.04), LabOutcome(1, (), 4, 20.0)
        for outcome in (first, second, dataclasses.replace(first, violations=())):
            record.write(outcome, path)
        assert record.read(path) == [second, LabOutcome(2, (), 3, 10.0)]

    def test_sums(self) -> None:
        found = record.sums([LabOutcome(1, (), 3, 1800.0), LabOutcome(2, ("x: y",), 4, 1800.0)])
        assert str(found) == "2 runs, 1 passed, 1 failed; 7 devices attached in 1.0 hours"


class TestPage:
    """The table of the recorded runs."""

    FOUND = (LabOutcome(1, (), 3, 1800.0), LabOutcome(2, ("theft: a", "theft: b", "leak: c"), 4, 1800.0),
             LabOutcome(3, (), 1, 36.0), LabOutcome(7, ("broken: d",), 0, 0.0))

    def test_each_promise_is_counted_once_for_a_run(self) -> None:
        rows = dict(line.strip("| ").split(" | ") for line in page.table(self.FOUND).splitlines()[2:])
        assert rows == {
            "runs": "4", "passed": "2", "devices attached": "8", "hours": "1.0", "runs with double attachments": "0",
            "runs with leaks": "1", "runs with lost claims": "0", "runs with thefts": "1",
            "runs with pods held longer than the bound": "0", "runs with other problems": "1",
            "seeds": "1 to 3, 7", "seeds that failed": "2, 7"}

    def test_the_rest_of_the_page_stays(self) -> None:
        text = f"before\n{page.BEGIN}old\n{page.END}\nafter\n"
        assert page.page(text, ()) == f"before\n{page.BEGIN}{page.NOTHING}{page.END}\nafter\n"
        with pytest.raises(ValueError, match="lab"):
            page.page("no markers", ())

    def test_the_page_is_as_it_was_recorded(self) -> None:
        text = page.PAGE.read_text(encoding="utf-8")
        assert page.page(text, record.read()) == text
