# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report tells every outcome, and a check that can fail does: against managers that break a promise."""

from __future__ import annotations

import dataclasses
import threading
import typing as t
import xml.etree.ElementTree as ET

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, FabricManager, Machine, Task
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance import changing, reading
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.checks import (
    CHECKS,
    FAILED,
    PASSED,
    SKIPPED,
    UNSUPPORTED,
    Result,
    examine,
    run,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.report import junit, markdown
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Missing, Refused, Uncertain
from ansible_collections.composable.infra.tests.conformance import truth
from ansible_collections.composable.infra.tests.conformance.managers import MODEL, ROWS, Emulators, subject


class Broken:
    """A manager's client, of which some calls are replaced."""

    def __init__(self, fabric: FabricManager, **replaced: t.Any) -> None:
        self._fabric, self._replaced = fabric, replaced

    def __getattr__(self, name: str) -> t.Any:
        return self._replaced.get(name) or getattr(self._fabric, name)


@pytest.fixture
def emulator(emulators: Emulators) -> Emulator:
    return emulators.get("fm")


def outcome(emulator: Emulator, work: t.Callable[..., str], broken: t.Callable[[FabricManager], Broken]) -> Result:
    """What a check says of a broken manager."""
    check = next(check for check in CHECKS if check.work is work)
    with subject(emulator, ROWS["fm"], patience=0.2) as examined:
        return examine(dataclasses.replace(examined, fabric=t.cast(FabricManager, broken(examined.fabric))), check)


def test_a_machine_that_is_made_up_fails(emulator: Emulator) -> None:
    result = outcome(emulator, reading.an_unknown_machine_is_missing,
                     lambda fabric: Broken(fabric, machine=lambda uid: Machine(uid, "made up", 1)))
    assert (result.outcome, "answered with a machine" in result.words) == (FAILED, True)


def test_a_device_that_is_listed_twice_fails(emulator: Emulator) -> None:
    result = outcome(emulator, reading.every_device_is_listed_once,
                     lambda fabric: Broken(fabric, devices=lambda: fabric.devices() * 2))
    assert (result.outcome, result.words) == (FAILED, "a device is listed twice")


def test_a_name_that_is_torn_fails(emulator: Emulator) -> None:
    result = outcome(emulator, reading.names_are_complete, lambda fabric: Broken(fabric, machines=lambda: tuple(
        dataclasses.replace(m, name=m.name.encode().decode("latin-1")) for m in fabric.machines())))
    assert (result.outcome, result.words.startswith("wrongly decoded names")) == (FAILED, True)


def test_a_count_that_is_wrong_fails(emulator: Emulator) -> None:
    check = changing.a_device_is_attached_and_detached
    result = outcome(emulator, check, lambda fabric: Broken(fabric, free=lambda *_of: 5))
    assert (result.outcome, result.words) == (FAILED, "5 were free, 5 are after an attach")
    assert truth.leaked(emulator) == []


def test_a_manager_that_attaches_what_nobody_has_fails(emulator: Emulator) -> None:
    result = outcome(emulator, changing.an_unknown_model_is_refused, lambda fabric: Broken(
        fabric, attach=lambda machine, model, count=1, **more: fabric.attach(machine, MODEL, count, **more)))
    assert result.outcome == FAILED
    assert truth.leaked(emulator) == []


def test_a_device_that_is_given_to_two_askers_fails(emulator: Emulator) -> None:
    def twice(fabric: FabricManager) -> Broken:
        device = Device("d", MODEL)
        return Broken(fabric, attach=lambda *_of, **_more: Task(True, (device,)))

    result = outcome(emulator, changing.parallel_attaches_get_different_devices, twice)
    assert (result.outcome, result.words) == (FAILED, "two requests received the same device: ['d', 'd']")


@pytest.mark.parametrize("work", [changing.parallel_attaches_get_different_devices,
                                  changing.a_repeated_token_loses_no_device])
def test_a_device_that_comes_after_its_reply_got_lost_is_waited_for(
        emulator: Emulator, work: t.Callable[..., str]) -> None:
    late: list[threading.Timer] = []

    def losing_the_first(fabric: FabricManager) -> Broken:
        def attach(*of: t.Any, **more: t.Any) -> Task:
            if late:
                return fabric.attach(*of, **more)
            late.append(threading.Timer(0.1, fabric.attach, of, more))
            late[0].start()
            raise Uncertain("no reply")

        return Broken(fabric, attach=attach)

    result = outcome(emulator, work, losing_the_first)
    late[0].join()
    assert result.outcome == PASSED, result.words
    assert truth.leaked(emulator) == []


def test_a_detach_that_takes_anothers_device_fails(emulator: Emulator) -> None:
    def careless(fabric: FabricManager) -> Broken:
        owners = {d.uid: m.uid for m in fabric.machines() for d in m.devices}
        return Broken(fabric, detach=lambda machine, uid: fabric.detach(owners[uid], uid))

    result = outcome(emulator, changing.a_device_of_another_machine_stays, careless)
    assert (result.outcome, "was taken from machine" in result.words) == (FAILED, True)


def test_what_keeps_a_sick_device_fails(emulator: Emulator) -> None:
    def accept(fabric: FabricManager) -> Broken:
        def attach(machine: str, model: str, count: int = 1, **more: t.Any) -> Task:
            try:
                return fabric.attach(machine, model, count, **more)
            except Refused as error:
                return Task(True, (error.device,) if error.device else ())

        return Broken(fabric, attach=attach)

    result = outcome(emulator, changing.an_unhealthy_device_is_refused, accept)
    assert result.outcome == FAILED
    assert truth.leaked(emulator) == []


def test_an_error_of_the_manager_fails_with_its_words(emulator: Emulator) -> None:
    def gone() -> tuple[Machine, ...]:
        raise Missing("no such tenant")

    result = outcome(emulator, reading.machines_are_listed, lambda fabric: Broken(fabric, machines=gone))
    assert (result.outcome, result.words) == (FAILED, "Missing: no such tenant")


@pytest.mark.parametrize("more", [{"machine": None}, {"model": None}, {"changes": False}])
def test_without_leave_nothing_is_changed(emulator: Emulator, more: dict[str, t.Any]) -> None:
    with subject(emulator, ROWS["fm"], **more) as examined:
        results = run(examined)
    assert {result.outcome for result in results if result.check.changes} == {SKIPPED}
    assert emulator.effects() == []
    assert {entry["method"] for entry in emulator.log() if entry["purpose"] != "login"} == {"GET"}


def test_the_report_has_every_outcome() -> None:
    outcomes = (PASSED, FAILED, UNSUPPORTED, SKIPPED)
    results = [Result(CHECKS[n], outcome, f"<{outcome}> | words", 0.5) for n, outcome in enumerate(outcomes)]
    suite = ET.fromstring(junit("fm", results)).find("testsuite")
    assert suite is not None
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["4", "1", "2"]
    messages = [[child.get("message") for child in case if child.tag != "system-out"] for case in suite]
    assert messages == [[], ["<failed> | words"], ["not offered: <unsupported> | words"], ["<skipped> | words"]]
    text = markdown("fm", "https://fm.example.com", results)
    assert "1 passed, 1 failed, 1 unsupported, 1 skipped" in text
    assert "| ✘ | a machine reads as it is listed | <failed> \\| words | 0.50 |" in text


def test_every_check_says_what_it_means() -> None:
    assert all(check.means.endswith(".") for check in CHECKS)
    assert len({check.name for check in CHECKS}) == len(CHECKS)
