# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By which resets a machine gets a power state, and when it counts as there."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import MachinePower
from ansible_collections.composable.infra.plugins.module_utils.fabric.desired import power
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    FabricError,
    Missing,
    Refused,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations import polling
from ansible_collections.composable.infra.tests.unit.fabric.desired.fake_manager import ABLE, FakeManager

ALL = ("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart")


@dataclass
class Switched(FakeManager):
    """``shows``: what the machine shows at each look, the last one for ever; ``refuses``: errors of the next resets."""

    shows: list[MachinePower | FabricError] = field(default_factory=list)
    refuses: list[FabricError] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def power(self, machine_uid: str) -> MachinePower:
        found = self.shows.pop(0) if len(self.shows) > 1 else self.shows[0]
        if isinstance(found, FabricError):
            raise found
        return found

    def reset(self, machine_uid: str, reset_type: str) -> None:
        self.asked.append(reset_type)
        if self.refuses:
            raise self.refuses.pop(0)


def state(shown: str, last_reset: str = "", offers: tuple[str, ...] = ALL) -> MachinePower:
    return MachinePower("uid-n0", "n0", shown, offers, last_reset)


def fake(*shows: MachinePower | FabricError) -> Switched:
    return Switched({"n0": 1}, {}, able=replace(ABLE, powers=True), shows=list(shows))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other at once, and the patience is a number of looks."""

    def pause(self: t.Any, at_least: float = 0.0) -> None:
        self.looks = getattr(self, "looks", 0) + 1

    monkeypatch.setattr(polling.Patience, "pause", pause)
    monkeypatch.setattr(polling.Patience, "over", property(lambda self: getattr(self, "looks", 0) >= 5))


def go(manager: Switched, wanted: str, force: bool = False, wait: bool = True) -> tuple[list[str], str]:
    """(resets that were asked for, what the machine shows at the end)."""
    found = power.plan(manager, manager, "n0", wanted, force)
    return manager.asked, power.carry_out(manager, found, 5.0, wait).state if found.steps else found.before.state


@pytest.mark.parametrize(("before", "wanted", "force", "asked"), [
    ("On", power.ON, False, []), ("Off", power.OFF, True, []), ("Off", power.ON, False, ["On"]),
    ("On", power.OFF, False, ["GracefulShutdown"]), ("On", power.OFF, True, ["ForceOff"]),
    ("On", power.RESTARTED, False, ["GracefulRestart"]), ("On", power.RESTARTED, True, ["ForceRestart"]),
    ("Off", power.RESTARTED, False, ["On"]), ("PoweringOff", power.ON, False, ["On"]),
])
def test_reset_by_state(before: str, wanted: str, force: bool, asked: list[str]) -> None:
    shown = "Off" if wanted == power.OFF else "On"
    assert go(fake(state(before), state(shown)), wanted, force) == (asked, shown)


def test_power_cycle_is_preferred_and_a_missing_restart_is_off_and_on() -> None:
    cycle = state("On", offers=(*ALL, "PowerCycle"))
    assert go(fake(cycle, state("On")), power.RESTARTED, force=True)[0] == ["PowerCycle"]
    bare = ("On", "ForceOff", "GracefulShutdown")
    one = fake(state("On", offers=bare), state("On"), state("Off"), state("Off"), state("On"))
    assert go(one, power.RESTARTED) == (["GracefulShutdown", "On"], "On")
    assert one.shows == [state("On")]


def test_restart_without_waiting_waits_for_the_first_of_two_steps() -> None:
    one = fake(state("On", offers=("On", "ForceOff")), state("PoweringOff"), state("Off"), state("PoweringOn"))
    assert go(one, power.RESTARTED, force=True, wait=False) == (["ForceOff", "On"], "PoweringOn")


def test_restart_has_ended_when_the_last_reset_is_another() -> None:
    one = fake(state("On", "t0"), state("On", "t0"), state("PoweringOn", "t0"), state("On", "t1"))
    assert go(one, power.RESTARTED) == (["GracefulRestart"], "On")
    assert one.shows == [state("On", "t1")]


@pytest.mark.parametrize(("offers", "wanted", "force", "said"), [
    (("On", "ForceOff"), power.OFF, False, "n0 cannot be powered-off gracefully. It offers On, ForceOff. With force"),
    (("On",), power.OFF, True, "n0 cannot be powered-off by force. It offers On"),
    ((), power.RESTARTED, True, "n0 cannot be restarted by force. It offers no reset at all")])
def test_reset_that_is_not_offered(offers: tuple[str, ...], wanted: str, force: bool, said: str) -> None:
    one = fake(state("On", offers=offers))
    with pytest.raises(Refused, match=said):
        go(one, wanted, force)
    assert one.asked == []


@pytest.mark.parametrize("error", [Uncertain("no reply"), Busy("it is on already")])
def test_unclear_answer_is_cleared_up_by_the_power(error: FabricError) -> None:
    one = fake(state("Off"), Unavailable("away"), state("PoweringOn"), state("On"))
    one.refuses = [error]
    assert go(one, power.ON) == (["On"], "On")
    lost = fake(state("Off"))
    lost.refuses = [error]
    with pytest.raises(type(error), match=str(error)):
        go(lost, power.ON)
    assert lost.asked == ["On"]


def test_restart_whose_reply_was_lost_needs_to_be_seen() -> None:
    lost = fake(state("On"))
    lost.refuses = [Uncertain("no reply")]
    with pytest.raises(Uncertain, match="no reply"):
        go(lost, power.RESTARTED)
    seen = fake(state("On"), state("PoweringOn"), state("On"))
    seen.refuses = [Uncertain("no reply")]
    assert go(seen, power.RESTARTED)[1] == "On"


def test_system_that_ignores_the_power_button() -> None:
    with pytest.raises(Uncertain, match=r"n0 is On 5 s after the request for GracefulShutdown\. Its system "
                       r"may have ignored"):
        go(fake(state("On")), power.OFF)


def test_manager_that_switches_nothing() -> None:
    bare = FakeManager({"n0": 1}, {})
    with pytest.raises(Refused, match=r"manager: fm cannot switch machines on or off\. Use a manager that does"):
        power.manager_of(bare, "fm")
    able = fake(state("On"))
    found: object = power.manager_of(able, "redfish")
    assert found is able


def test_unknown_machine() -> None:
    with pytest.raises(Missing, match=r"knows no machine n9\. Allowed are n0"):
        power.plan(fake(state("On")), fake(state("On")), "n9", power.ON, False)
