# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulated power of machines: what each reset leads through, and what is refused."""

from __future__ import annotations

import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator.dialects.shared.redfish import power
from ansible_collections.composable.infra.emulator.dialects.shared.redfish.errors import RedfishError
from ansible_collections.composable.infra.emulator.dialects.shared.redfish.options import Options
from ansible_collections.composable.infra.emulator.pool.journal import Journal

NODE = "node-0"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which only the test moves."""
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


def made(journal: Journal | None = None, **more: t.Any) -> power.Power:
    return power.Power(Options(frozenset(), reset_types=power.RESET_TYPES, power_seconds=10.0, **more), journal)


def course(found: power.Power, clock: list[float], reset_type: str) -> list[str]:
    """What the machine shows at once and after each ten seconds."""
    found.reset(NODE, {"ResetType": reset_type})
    shown = [found.state(NODE)]
    for _unused in range(3):
        clock[0] += 10.0
        shown.append(found.state(NODE))
    return shown


@pytest.mark.parametrize(("reset_type", "shown"), [
    ("ForceOff", ["PoweringOff", "Off", "Off", "Off"]), ("GracefulShutdown", ["On", "Off", "Off", "Off"]),
    ("GracefulRestart", ["On", "PoweringOn", "On", "On"]), ("ForceRestart", ["PoweringOff", "PoweringOn", "On", "On"]),
    ("PowerCycle", ["PoweringOff", "Off", "PoweringOn", "On"])])
def test_courses(clock: list[float], reset_type: str, shown: list[str]) -> None:
    found = made()
    before = found.last_reset(NODE)
    assert course(found, clock, reset_type) == shown
    assert (found.last_reset(NODE) != before) is (shown[-1] == "On")


def test_machine_that_is_off_comes_on(clock: list[float]) -> None:
    found = made()
    course(found, clock, "ForceOff")
    assert course(found, clock, "On") == ["PoweringOn", "On", "On", "On"]


def test_system_that_ignores_the_button(clock: list[float]) -> None:
    found = made(ignores_shutdown=True)
    assert course(found, clock, "GracefulShutdown") == ["On"] * 4
    assert course(found, clock, "ForceOff")[-1] == "Off"


@pytest.mark.parametrize(("body", "status", "name"), [
    ({}, 400, "ActionParameterMissing"), (None, 400, "ActionParameterMissing"),
    ({"ResetType": "Nmi"}, 400, "ActionParameterNotSupported"), ({"ResetType": 1}, 400, "ActionParameterNotSupported"),
    ({"ResetType": "ForceOff", "Delay": 1}, 400, "ActionParameterUnknown"),
    ({"ResetType": "On"}, 409, "ResourceInUse"), ({"ResetType": "ForceOn"}, 409, "ResourceInUse")])
def test_refusals(clock: list[float], body: t.Any, status: int, name: str) -> None:
    with pytest.raises(RedfishError) as refused:
        made().reset(NODE, body)
    assert (refused.value.status, refused.value.name) == (status, name)


@pytest.mark.parametrize("first", ["ForceOff", "GracefulShutdown", "GracefulRestart"])
def test_machine_that_is_switching_takes_no_other_reset(clock: list[float], first: str) -> None:
    found = made()
    found.reset(NODE, {"ResetType": first})
    clock[0] += 5.0
    with pytest.raises(RedfishError, match="accepts no other reset"):
        found.reset(NODE, {"ResetType": "ForceOff"})


def test_off_is_not_switched_off_again(clock: list[float]) -> None:
    found = made()
    course(found, clock, "ForceOff")
    with pytest.raises(RedfishError, match="the system is already Off, so GracefulShutdown is not possible"):
        found.reset(NODE, {"ResetType": "GracefulShutdown"})


def test_power_outlives_the_service(clock: list[float], tmp_path: Path) -> None:
    path = tmp_path / "power.jsonl"
    course(made(Journal(path)), clock, "ForceOff")
    assert made(Journal(path)).state(NODE) == "Off"
