# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switches of a fabric and their links, as the page is told them; nothing where the CDI Manager tells none."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Link, Switch
from ansible_collections.composable.infra.tests.unit.controller.ui.conftest import EVERYTHING, MINE, Looked
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

Json = dict[str, t.Any]
ONE = Switch("s1", 1, "Switch 1", "OK", (Link("machine", "machine-0"), Link("box", "box-a", 2, 1, 512.0)))
TWO = Switch("s2", 1, "Switch 2", "Critical")


def look(looked: Looked, *switches: Switch, **of_device: tuple[str, ...]) -> Json:
    """The fabric was looked at; the rows that were sent after it."""
    looked.bench.fabric.switches, looked.bench.fabric.switches_of = switches, of_device
    looked.bench.look()
    change = looked.view.refresh()
    return dict(change.rows) | dict.fromkeys(change.gone) if change else {}


def switches(looked: Looked) -> dict[str, Json]:
    rows: dict[str, Json] = json.loads(looked.view.snapshot(EVERYTHING))["rows"]
    return {key: row for key, row in rows.items() if key.startswith("switch/")}


def test_where_no_switch_is_told_there_is_none(looked: Looked) -> None:
    look(looked)
    assert switches(looked) == {}


def test_a_switch_tells_where_its_ports_lead(looked: Looked) -> None:
    look(looked, ONE, TWO)
    assert switches(looked) == {
        "switch/1/s1": {"fabric": 1, "switch": "s1", "name": "Switch 1", "links": [
            {"kind": "machine", "to": "machine-0", "ports": 1, "down": 0},
            {"kind": "box", "to": "box-a", "ports": 2, "down": 1, "gbps": 512.0}]},
        "switch/1/s2": {"fabric": 1, "switch": "s2", "name": "Switch 2", "trouble": "its health is Critical"}}


def test_only_what_is_other_is_sent(looked: Looked) -> None:
    look(looked, ONE, TWO)
    assert look(looked, ONE, TWO) == {}
    moved = Switch("s2", 1, "Switch 2", "OK", (Link("switch", "s1"),))
    assert list(look(looked, ONE, moved)) == ["switch/1/s2"]
    assert look(looked, ONE) == {"switch/1/s2": None}
    assert list(switches(looked)) == ["switch/1/s1"]


def test_who_comes_later_sees_them_and_hears_when_they_go(looked: Looked) -> None:
    look(looked, ONE)
    looked.view.close()
    looked.view.open()
    assert list(switches(looked)) == ["switch/1/s1"]
    assert look(looked) == {"switch/1/s1": None}


def test_a_namespace_is_shown_no_switch(looked: Looked) -> None:
    look(looked, ONE)
    assert "s1" not in looked.view.snapshot(MINE)
    assert looked.stories.of("switch/1/s1", MINE, looked.view) is None


def test_the_story_of_a_switch_is_its_row(looked: Looked) -> None:
    look(looked, ONE)
    told = looked.stories.of("switch/1/s1", EVERYTHING, looked.view)
    assert told is not None
    assert told["row"]["name"] == "Switch 1"


def test_a_device_tells_its_switches_of_the_fabric(looked: Looked) -> None:
    """Beside the one that its node reaches it through, which its driver publishes."""
    looked.bench.fabric.attached = {"d1": device("d1"), "d2": device("d2")}
    looked.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Online"),
               objects.resource("gpu-b", device="d2", serial="GPU-d2", state="Online"))
    look(looked, ONE, d1=("s1", "s2"))
    told = [looked.stories.of(f"device/{name}", EVERYTHING, looked.view) or {} for name in ("gpu-a", "gpu-b")]
    assert [each["evidence"].get("fabric switch") for each in told] == ["s1, s2", None]
