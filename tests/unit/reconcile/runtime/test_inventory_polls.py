# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric is looked at again and again, whatever an answer is and however long it takes; what differs is told."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.controller.health import status
from ansible_collections.composable.infra.controller.ui.page import process_row
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricSnapshot
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import Key, NodeKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.gauges import gauges
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.inventory_polls import (
    OLD_SECONDS,
    SHORTEST_LOOK,
)
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

Live = tuple[ControllerManager, Bench]


def test_node_whose_machine_shows_something_else_is_worked_on(quiet: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, bench = quiet
    engine.inventory_polls.look(time.time())
    queued: list[Key] = []
    monkeypatch.setattr(engine.queue, "add_change", queued.append)
    engine.inventory_polls.look(time.time())
    assert NodeKey("node-0") not in queued
    bench.fabric.attached["d1"] = device("d1", machine="machine-0")
    engine.inventory_polls.look(time.time())
    assert NodeKey("node-0") in queued


def test_a_look_tells_which_devices_several_machines_have(quiet: Live) -> None:
    engine, bench = quiet
    bench.fabric.others = ("machine-1",)
    bench.fabric.attached = {"a": device("d1"), "b": device("d1", machine="machine-1"), "c": device("d2"),
                             "d": device("d3", shared=True)}
    engine.inventory_polls.look(time.time())
    assert engine.state.snapshot is not None
    assert engine.state.snapshot.shared == {"d1": ("machine-0", "machine-1"), "d3": ("machine-0",)}


def test_look_survives_what_nobody_expects(quiet: Live) -> None:
    engine, bench = quiet
    bench.fabric.snapshot_error = KeyError("data")
    engine.inventory_polls.look(time.time())
    assert engine.problems()


def test_an_inventory_that_grows_old_is_a_problem_though_no_poll_failed(quiet: Live,
                                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    engine, bench = quiet
    clock = [float(int(time.monotonic()))]  # whole seconds, so that differences are exact
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    engine.inventory_polls.look(time.time())
    clock[0] += OLD_SECONDS
    assert engine.problems() == []
    assert status(engine)["fabric_poll_age_seconds"] == OLD_SECONDS
    clock[0] += 1.0
    old = "no poll of the CDI Manager has succeeded for more than 120 s"
    assert engine.problems() == status(engine)["troubles"] == [old]
    assert process_row(engine, tuple, "1.0.0").troubles == (old,)
    assert gauges(engine)["fabric_poll_age_seconds"] == OLD_SECONDS + 1.0
    bench.fabric.snapshot_error = KeyError("data")
    engine.inventory_polls.look(time.time())
    assert old in engine.problems()
    bench.fabric.snapshot_error = None
    engine.inventory_polls.look(time.time())
    assert engine.problems() == []


def test_page_is_told_when_the_fabric_was_read_and_when_that_is_old(quiet: Live,
                                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _bench = quiet
    with monkeypatch.context() as before:
        before.setattr(engine.state, "snapshot", None)
        row = process_row(engine, tuple, "1.0.0")
        assert (row.read, row.old_after) == (0.0, 0.0)
    engine.inventory_polls.look(time.time())
    row = process_row(engine, tuple, "1.0.0")
    assert row.read == pytest.approx(engine.state.clock(), abs=5.0)
    assert row.old_after == 1.0, "twice the shortest interval between two polls"
    seen = engine.state.snapshot
    assert seen
    engine.state.snapshot = replace(seen, taken=100.0, read=130.0)
    row = process_row(engine, tuple, "1.0.0")
    assert (row.read, row.old_after) == (130.0, 120.0), "a poll that takes 30 s is followed by a rest of 30 s"


def test_look_keeps_machines_that_are_as_they_were(quiet: Live) -> None:
    engine, bench = quiet
    bench.fabric.attached |= {uid: device(uid, machine="machine-0") for uid in ("d1", "d2")}
    engine.inventory_polls.look(time.time())
    first = engine.state.snapshot
    engine.inventory_polls.look(time.time())
    second = engine.state.snapshot
    assert first is not None
    assert second is not None
    assert first is not second
    assert first.machines
    assert any(machine.devices for machine in second.machines.values())
    for uid, machine in second.machines.items():
        assert machine is first.machines[uid]
        assert machine == bench.fabric.snapshot(()).machines[uid]


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_wall_clock_that_is_set_does_not_put_off_the_next_look(quiet: Live, monkeypatch: pytest.MonkeyPatch,
                                                               jump: float) -> None:
    engine, _bench = quiet
    now, waits = [1_800_000_000.0], list[float]()
    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setattr(engine.inventory_polls, "look", lambda began: now.append(now.pop() + jump))

    def wait(seconds: float) -> None:
        waits.append(seconds)
        engine.stopping.set()

    monkeypatch.setattr(engine.stopping, "wait", wait)
    monkeypatch.setattr(engine.inventory_polls.soon, "wait", wait)
    engine.inventory_polls.run()
    assert len(waits) == 2
    assert max(waits) <= SHORTEST_LOOK


@pytest.mark.parametrize(("took", "rest"), [(0.01, 0.5), (0.2, 2.0), (1.5, 5.0), (12.0, 12.0)])
def test_device_that_returned_is_seen_soon_after_a_look_that_took_long(
    quiet: Live, monkeypatch: pytest.MonkeyPatch, took: float, rest: float
) -> None:
    """A look of 1.5 s, as on a busy machine, was followed by 15 s in which no return of a device counted."""
    engine, _bench = quiet
    clock, rests = [1000.0], list[float]()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(engine.inventory_polls, "look", lambda _began: clock.append(clock.pop() + took))

    def wait(seconds: float) -> None:
        rests.append(seconds)
        engine.stopping.set()

    monkeypatch.setattr(engine.stopping, "wait", wait)
    engine.inventory_polls.soon.set()
    engine.inventory_polls.run()
    assert rests == [pytest.approx(rest)]


@pytest.mark.parametrize("shown_before", [True, False])
def test_inventory_without_a_machine_to_which_a_device_is_on_its_way(quiet: Live, shown_before: bool) -> None:
    """A CDI Manager at work may leave the machine out, in two readings in a row as well."""
    engine, bench = quiet
    timeout = engine.config.fabric.attach_timeout
    engine.state.snapshot = None
    bench.fabric.others = ("machine-1",) if shown_before else ()
    if shown_before:
        engine.inventory_polls.look(time.time())
        bench.fabric.others = ()
    bench.put(objects.resource(machine="machine-1", asked=timeout - 5, node="node-1"))
    for _unused in range(3):
        engine.inventory_polls.look(time.time())
    seen = seen_by(engine)
    if shown_before:
        assert seen is not None
        assert (set(seen.machines), bool(seen.unconfirmed)) == ({"machine-0", "machine-1"}, True)
    else:
        assert seen is None
        assert engine.problems() == [
            "the CDI Manager does not show machine machine-1, to which a device is being attached"]

    # no reply comes any more: what the CDI Manager shows is believed
    bench.put(objects.resource(machine="machine-1", asked=timeout + 5, node="node-1"))
    engine.inventory_polls.look(time.time())
    engine.inventory_polls.look(time.time())
    seen = seen_by(engine)
    assert seen is not None
    assert (set(seen.machines), seen.unconfirmed) == ({"machine-0"}, "")
    assert engine.problems() == []


def seen_by(engine: ControllerManager) -> FabricSnapshot | None:
    """The inventory that was read last."""
    return engine.state.snapshot
