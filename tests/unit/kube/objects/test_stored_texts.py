# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one release stores and another one reads.

A reader passes over keys that it does not know, and believes nothing of a version that it does not know. The pods of
an upgrade and of a downgrade run beside each other, and both read what either has stored.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Callable, Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.cm import driver as cm
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.cm import outcome
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.nec import procedures as nec
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.nec.wire import Part
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish import tasks
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Uncertain
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations.batches import (
    PendingOperation,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import autoscaling, cohdi
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state import node_agents
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines import day_of_waits, timeline

NEW = "ofANewerRelease"
EVIDENCE = {"version": 1, "phase": "Ready", "device": "GPU-1", "by": "agent", "uuid": "GPU-1",
            "address": "0000:10:00.0", "numaNode": 0,
            "link": {"width": 16, "maxWidth": 16, "speed": "32 GT/s", "maxSpeed": "32 GT/s"},
            "steps": [{"step": "Loaded", "at": "2026-01-01T00:00:00Z"}],
            "trouble": {"reason": "R", "message": "m", "since": "2026-01-01T00:00:00Z"}}
MOMENT = "2026-01-01T00:00:00.000000Z"
TIMELINES = {"version": 1, "claims": [{
    "claim": "a/b", "uid": "u", "node": "n", "created": MOMENT, "steps": [],
    "hops": [{"hop": next(iter(timeline.SHARES)), "began": MOMENT, "ended": MOMENT}]}]}
WAITS = {"version": 1, "writer": "w", "number": 3, "hours": {}}
SCALE_UP = [{"version": 1, "pod": "p", "claim": "c", "count": 1, "since": MOMENT, "until": MOMENT}]
PLACES = {"version": 1, "pcieRoot": "pci0000:80", "numaNode": 1}
TASK = {"version": 1, "task": "/redfish/v1/TaskService/TaskMonitors/1", "machine": "m", "device": "d", "attach": True}
APPLY = {"version": 1, "apply": "a", "number": 1, "operation": "connect", "machine": "m", "device": "d"}


def annotated(name: str, read: Callable[[t.Any], t.Any]) -> Callable[[str], t.Any]:
    """Read an object that has the text as this annotation."""
    return lambda text: read({"metadata": {"annotations": {name: text}}})


STORED: dict[str, tuple[t.Any, Callable[[str], t.Any]]] = {
    "evidence": (EVIDENCE, Evidence.parse),
    "timelines": (TIMELINES, timeline.parse),
    "waits of the day": (WAITS, day_of_waits.of_text),
    "attach intent": (json.loads(cohdi.attach_intent("m", 1.0, ("x",))), annotated(cohdi.ATTACH, cohdi.read_intent)),
    "scale-up": (SCALE_UP, annotated(autoscaling.SCALE_UP, autoscaling.read_scale_up)),
    "operation at CM": (json.loads(outcome.handle(outcome.Key("m", "gpu", "A100"), device="d")), cm._told),
    "operation at NEC": (APPLY, nec.told),
    "operation at Redfish": (TASK, tasks.Operation.read),
    "fabric places": (PLACES, annotated(node_agents.PLACES, node_agents.read_places)),
}
VERSIONED: dict[str, t.Any] = {
    "evidence": None,
    "timelines": (),
    "attach intent": ("", 0.0, frozenset()),
    "fabric places": {},
}
OPERATIONS = [what for what in STORED if what.startswith("operation")]


def with_a_key_more(told: t.Any) -> Iterator[t.Any]:
    """The document with another key in each of its objects, one after the other."""
    if isinstance(told, dict):
        yield {**told, NEW: {"x": [1]}}
    for key, value in told.items() if isinstance(told, dict) else enumerate(told):
        if isinstance(value, (dict, list)) and key not in ("hours", "present"):
            for changed in with_a_key_more(value):
                yield ({**told, key: changed} if isinstance(told, dict) else
                       [changed if number == key else each for number, each in enumerate(told)])


def known(found: t.Any) -> t.Any:
    """What is read of it, without the key that nobody reads."""
    return {key: value for key, value in found.items() if key != NEW} if isinstance(found, dict) else found


@pytest.mark.parametrize("what", STORED)
def test_keys_of_a_newer_release_are_passed_over(what: str) -> None:
    document, read = STORED[what]
    expected = read(json.dumps(document))
    assert expected, "it can be read"
    changed = list(with_a_key_more(document))
    assert changed
    assert [known(read(json.dumps(each))) for each in changed] == [expected] * len(changed)


@pytest.mark.parametrize("what", VERSIONED)
def test_another_version_proves_nothing(what: str) -> None:
    document, read = STORED[what]
    assert document["version"] == 1
    assert read(json.dumps({**document, "version": 2})) == VERSIONED[what]


def test_waits_of_another_version_are_no_table() -> None:
    with pytest.raises(ValueError, match="its version is 2"):
        day_of_waits.of_text(json.dumps({**WAITS, "version": 2}))


@pytest.mark.parametrize(("change", "unreadable"), [({}, False), ({"version": 2}, True)])
def test_nobody_knows_what_an_intent_of_another_version_asked_for(change: dict[str, int], unreadable: bool) -> None:
    text = json.dumps({**json.loads(cohdi.attach_intent("m", 1.0, ())), **change})
    assert annotated(cohdi.ATTACH, cohdi.intent_unreadable)(text) is unreadable


def test_intent_from_before_intents_had_versions_is_read() -> None:
    text = json.dumps({"machine": "m", "asked": MOMENT, "present": ["x"]})
    machine, asked, present = annotated(cohdi.ATTACH, cohdi.read_intent)(text)
    assert (machine, asked > 0, present) == ("m", True, {"x"})
    assert annotated(cohdi.ATTACH, cohdi.intent_unreadable)(text) is False
    assert annotated(cohdi.ATTACH, cohdi.intent_unreadable)(cohdi.NOT_ASKED) is False


@pytest.mark.parametrize("what", OPERATIONS)
def test_operation_of_another_version_is_uncertain_and_neither_lost_nor_ended(what: str) -> None:
    """Missing would have the operator forget the handle, and then request the device a second time."""
    document, read = STORED[what]
    assert document["version"] == 1
    with pytest.raises(Uncertain, match="version is 2"):
        read(json.dumps({**document, "version": 2}))


@pytest.mark.parametrize("what", OPERATIONS)
def test_operation_from_before_handles_had_versions_is_read(what: str) -> None:
    document, read = STORED[what]
    without = {key: value for key, value in document.items() if key != "version"}
    found, expected = read(json.dumps(without)), read(json.dumps(document))
    if isinstance(expected, dict):
        expected = {key: value for key, value in expected.items() if key != "version"}
    assert found == expected


def test_handles_are_written_with_their_version() -> None:
    part = Part("d", "gpu")
    step = nec.Step(PendingOperation(nec.WantedDevice("m")), "connect", part, part)
    handles = [
        outcome.handle(outcome.Key("m", "gpu", "A100")),
        nec.handle("a", step, 1),
        tasks.Operation("/t").handle(),
    ]
    assert [json.loads(handle)["version"] for handle in handles] == [1, 1, 1]


def scale_up(pod: str, **more: t.Any) -> dict[str, t.Any]:
    """An entry as the text has it."""
    return {**SCALE_UP[0], "pod": pod, **more}


def rewritten(text: str, *without: str) -> t.Any:
    """The text after entries of some pods were removed, and nothing else was changed."""
    entries = annotated(autoscaling.SCALE_UP, autoscaling.read_scale_up)(text)
    kept = [entry for entry in entries if entry.pod not in without]
    return json.loads(autoscaling.scale_up_text(kept, text) or "[]")


def test_scale_ups_of_another_version_are_passed_over_and_kept() -> None:
    newer = {"version": 2, "pods": ["q"]}
    text = json.dumps([scale_up("p"), newer])
    assert [entry.pod for entry in annotated(autoscaling.SCALE_UP, autoscaling.read_scale_up)(text)] == ["p"]
    assert rewritten(text) == [scale_up("p"), newer]
    assert rewritten(text, "p") == [newer]


def test_scale_up_keeps_the_keys_of_a_newer_release() -> None:
    text = json.dumps([scale_up("p", **{NEW: 1}), scale_up("q", **{NEW: 2})])
    assert rewritten(text, "p") == [scale_up("q", **{NEW: 2})]


def test_scale_up_from_before_entries_had_versions_is_read() -> None:
    text = json.dumps([{key: value for key, value in scale_up("p").items() if key != "version"}])
    assert rewritten(text) == [scale_up("p")]
