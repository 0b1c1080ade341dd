# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Poll the CDI Manager at intervals, store the inventory in the state, and report differences."""

from __future__ import annotations

import dataclasses
import threading
import time
import typing as t
from collections.abc import Callable, Mapping

from ...fabric.api import FabricManager, FabricSnapshot, Machine
from ...fabric.errors import FabricError, Unavailable
from ..runtime.event_reporter import EventReporter
from ..state.cluster_state import ClusterState

# Shortest pause between two polls, and longest pause after a device returned, both in seconds. A
# poll that takes longer extends the latter.
SHORTEST_LOOK: t.Final = 0.5
LONGEST_REST: t.Final = 5.0
OTHERS: t.Final = "two polls of the CDI Manager in a row showed different machines"
# Seconds without a successful poll after which the inventory counts as old. Three intervals count
# if they are longer.
OLD_SECONDS: t.Final = 120.0


class InventoryPolls:
    """Polls every ``interval`` seconds, or sooner if ``soon`` is set.

    ``changed`` is called after each successful poll with the inventory before, if any, and the new
    one. ``at_work`` is how many seconds the CDI Manager may work on a request.
    """

    def __init__(self, fabric: FabricManager, state: ClusterState, reporter: EventReporter, interval: float,
                 at_work: float, stopping: threading.Event,
                 changed: Callable[[FabricSnapshot | None, FabricSnapshot], None]) -> None:
        self._fabric, self._state, self._reporter = fabric, state, reporter
        self._interval, self._at_work, self._changed = interval, at_work, changed
        self.stopping, self.soon = stopping, threading.Event()
        self._succeeded = time.monotonic()

    def run(self) -> None:
        """Poll until stopped."""
        while not self.stopping.is_set():
            began = time.monotonic()  # a wall clock that is set could delay the next poll by minutes
            self.look(self._state.clock())
            self.stopping.wait(_rest(time.monotonic() - began))
            self.soon.wait(max(0.0, self._interval - (time.monotonic() - began)))
            self.soon.clear()

    def age(self) -> float:
        """Return the seconds since the last successful poll, or since this object was made if there
        was none."""
        return time.monotonic() - self._succeeded

    def problem(self) -> str:
        """Return a sentence if the inventory is old for any reason, else an empty string.

        A poll that does not end reports no error.
        """
        limit = max(OLD_SECONDS, 3 * self._interval)
        return f"no poll of the CDI Manager has succeeded for more than {limit:g} s" if self.age() > limit else ""

    def last_read(self) -> tuple[float, float]:
        """Return when the last successful poll ended, in seconds since the epoch, and when it
        becomes old.

        The second value is in seconds and is twice the time between two polls. Both are 0.0 before
        the first poll.
        """
        seen = self._state.snapshot
        if seen is None:
            return 0.0, 0.0
        took = max(0.0, seen.read - seen.taken)
        return max(seen.taken, seen.read), 2 * max(self._interval, took + _rest(took))

    def look(self, began: float) -> None:
        """Poll once. Store a problem in the state and report it. Never raise.

        Before the first poll, list the machines an extra time, because a single list proves
        nothing.
        """
        models, old = [m.cdi_model_name for m in self._state.settings.models], self._state.snapshot
        try:
            before = old.machines.keys() if old else {machine.uid for machine in self._fabric.machines()}
            began = began if old else self._state.clock()
            shown = self._fabric.snapshot(models)
            new = dataclasses.replace(shown, taken=began, read=self._state.clock(), shared=_shared(shown.machines))
            if old is None or new.machines.keys() != before:
                new = self._with_machines_at_work(old, new)
        except Exception as error:  # an unexpected response must not end the polls
            self._note(str(error) if isinstance(error, FabricError) else f"{type(error).__name__}: {error}")
            return
        self._succeeded = time.monotonic()
        self._note("; ".join(sorted(set(new.problems.values()))))
        if shown.machines.keys() != before:
            new = dataclasses.replace(new, unconfirmed=OTHERS)
            self.soon.set()
        self._state.snapshot = new = _with_known(old, new)
        self._changed(old, new)

    def _with_machines_at_work(self, old: FabricSnapshot | None, new: FabricSnapshot) -> FabricSnapshot:
        """Keep the last known state of machines that are missing in this poll while they get a
        device.

        Raise Unavailable if no poll showed them. Otherwise a pod would be planned again and a
        second device requested.
        """
        since = self._state.clock() - self._at_work
        asked = {each.machine for each in self._state.resources.each_value() if each.machine and each.asked > since}
        left_out = asked - new.machines.keys()
        shown = old.machines if old else {}
        if unknown := sorted(left_out - shown.keys()):
            self.soon.set()
            raise Unavailable(f"the CDI Manager does not show machine {', '.join(unknown)}, to which a device is being "
                              "attached")
        return dataclasses.replace(new, machines={**new.machines, **{uid: shown[uid] for uid in left_out}})

    def _note(self, problem: str) -> None:
        self._state.fabric_problem = problem
        self._reporter.once("fabric", problem)


def _rest(took: float) -> float:
    """Return the seconds until the next poll, by the duration of the last.

    Fast polls take at most a tenth of the time, slow ones half.
    """
    return max(SHORTEST_LOOK, min(10 * took, max(LONGEST_REST, took)))


def _shared(machines: Mapping[str, Machine]) -> Mapping[str, tuple[str, ...]]:
    """Return the UIDs of machines for each device that several machines have.

    Also include a device that the manager marks as shared with a machine that is not shown.
    """
    owners: dict[str, list[str]] = {}
    said = set[str]()
    for machine in machines.values():
        for device in machine.devices:
            owners.setdefault(device.uid, []).append(machine.uid)
            if device.shared:
                said.add(device.uid)
    return {uid: tuple(sorted(found)) for uid, found in owners.items() if len(found) > 1 or uid in said}


def _with_known(old: FabricSnapshot | None, new: FabricSnapshot) -> FabricSnapshot:
    """Reuse the values of unchanged machines, so that later comparisons are by identity."""
    before, machines = old.machines if old else {}, {}
    for uid, each in new.machines.items():
        known = before.get(uid)
        machines[uid] = known if known == each else each
    return dataclasses.replace(new, machines=machines)
