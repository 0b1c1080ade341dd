# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_power against emulated Redfish services, over TLS, in both forms; and a machine that must be off."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator, machine_uuid, simple_spec
from ansible_collections.composable.infra.tests.integration.modules.conftest import L40S, Json, Play

FORMS: dict[str, Json] = {"in process": {}, "module": {"environment": {"FORM": "module"}}}
CHECK: Json = {"check_mode": True, "diff": True}
Start = Callable[..., Json]


@pytest.fixture(scope="module")
def start(folder: Path) -> Iterator[Start]:
    """Starts a Redfish service with settings; returns how it is reached."""
    running: list[Emulator] = []

    def run(**settings: t.Any) -> Json:
        spec = simple_spec(["node-0"], {L40S: 2}, managers=["redfish"], settings={"redfish": settings}, attach=0.0,
                           detach=0.0)
        running.append(Emulator.run(spec, folder / f"redfish-{len(running)}"))
        return running[-1].fabric_config()

    yield run
    for emulator in running:
        emulator.stop()


def task(base: Json, state: str, **more: t.Any) -> Json:
    given = {key: more.pop(key) for key in ("force", "wait", "wait_timeout") if key in more}
    return {"composable.infra.fabric_power": {**base, "machine": "node-0", "state": state, **given}, **more}


@pytest.mark.parametrize("form", FORMS)
def test_check_apply_apply_check(start: Start, play: Play, form: str) -> None:
    """The service accepts at once, with a task, and the machine takes its time."""
    base = start(power_seconds=0.2, asynchronous=True)
    off, on = (task(base, state, **FORMS[form]) for state in ("powered-off", "powered-on"))
    info: Json = {"composable.infra.fabric_info": {**base, "gather": ["machines"]}}
    results = play([{**off, **CHECK}, info, {**off, "diff": True}, info, {**off, "diff": True}, {**off, **CHECK}, on,
                    task(base, "restarted", force=True, **FORMS[form])]).results
    assert not [r["msg"] for r in results if r.get("failed")]
    check, before, apply, after, again, last, back, restart = results
    assert [r["changed"] for r in (check, apply, again, last, back, restart)] == [True, True, False, False, True, True]
    told, diff = ("power_state", "resets", "diff"), {"before": {"power_state": "On"}, "after": {"power_state": "Off"}}
    for result in (check, apply):
        assert [result[key] for key in told] == ["Off", ["GracefulShutdown"], diff]
    assert [f["machines"][0]["power_state"] for f in (before, after)] == ["On", "Off"]
    assert again["diff"] == last["diff"] == {"before": {"power_state": "Off"}, "after": {"power_state": "Off"}}
    assert [(r["machine"], r["power_state"], r["resets"]) for r in (back, restart)] == [
        (machine_uuid("node-0"), "On", ["On"]), (machine_uuid("node-0"), "On", ["ForceRestart"])]


def test_machine_that_takes_devices_only_while_it_is_off(start: Start, play: Play) -> None:
    base = start(attach_off=True, power_seconds=0.1)
    attach: Json = {"composable.infra.fabric_device": {**base, "machine": "node-0", "model": L40S}}
    refused, _off, attached, on, stubborn = play([
        attach, task(base, "powered-off", force=True), attach, task(base, "powered-on"),
        task(start(ignores_shutdown=True), "powered-off", wait_timeout=0.5)]).results
    assert (refused["failed"], "must be off" in refused["msg"]) == (True, True), refused["msg"]
    assert (attached["changed"], attached["count"], on["power_state"]) == (True, 1, "On")
    said = "is On 0.5 s after the request for GracefulShutdown. Its system may have ignored the request"
    assert said in stubborn["msg"]


def test_what_is_not_offered_is_one_sentence_in_check_mode_too(start: Start, play: Play, emulator: Emulator) -> None:
    base = start(reset_types=["On", "ForceOff"])
    found = play([{**task(base, "powered-off"), **mode} for mode in (CHECK, {})]
                 + [{**task(emulator.fabric_config(), "powered-off"), **mode} for mode in (CHECK, {})]
                 + [task(base, "off")]).results
    assert [r["msg"] for r in found[:2]] == ["state: machine node-0 cannot be powered-off gracefully. It offers On, "
                                             "ForceOff. With force it can"] * 2
    assert {r["msg"].partition(".")[0] for r in found[2:4]} == {"manager: fm cannot switch machines on or off"}
    assert "value of state must be one of: powered-on, powered-off, restarted" in found[4]["msg"]
