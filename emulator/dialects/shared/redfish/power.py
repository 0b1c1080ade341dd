# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated power of machines behind ComputerSystem.Reset (DMTF: ComputerSystem_v1.xml,
Resource.ResetType).

It is as strict as real services. An accepted reset says nothing about the power, which changes
later, through PoweringOn and PoweringOff. A value that is not among the allowable values is
refused. So is a reset without a value, which the standard leaves open. A machine that is on cannot
be switched on, and a machine that is switching takes no other reset (409). A system that ignores
the power button stays on after a graceful shutdown.
"""

from __future__ import annotations

import time
import typing as t
from datetime import UTC, datetime

from ....pool.journal import Journal
from .errors import RedfishError
from .options import Options

ON, OFF, POWERING_ON, POWERING_OFF = "On", "Off", "PoweringOn", "PoweringOff"
RESET_TYPES: t.Final = ("On", "ForceOn", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart",
                        "PowerCycle")
_SWITCH_ON: t.Final = frozenset({"On", "ForceOn"})
_NEEDS_SYSTEM: t.Final = frozenset({"GracefulShutdown", "GracefulRestart"})
# The states through which a machine passes, each after so many times ``power_seconds``.
_COURSES: t.Final[dict[str, tuple[tuple[int, str], ...]]] = {
    "On": ((0, POWERING_ON), (1, ON)),
    "ForceOn": ((0, POWERING_ON), (1, ON)),
    "ForceOff": ((0, POWERING_OFF), (1, OFF)),
    "GracefulShutdown": ((1, OFF),),
    "GracefulRestart": ((1, POWERING_ON), (2, ON)),
    "ForceRestart": ((0, POWERING_OFF), (1, POWERING_ON), (2, ON)),
    "PowerCycle": ((0, POWERING_OFF), (1, OFF), (2, POWERING_ON), (3, ON)),
}

Moment = tuple[float, str]


class Power:
    """The power of every machine, on at first.

    As with real machines, it survives a restart of the service.
    """

    def __init__(self, options: Options, journal: Journal | None) -> None:
        self._options = options
        self._journal = journal
        self._first: list[Moment] = [(time.time(), ON)]
        self._courses: dict[str, list[Moment]] = {
            record["machine"]: [(float(at), str(state)) for at, state in record["course"]]
            for record in (journal.read() if journal else ())}

    def state(self, machine: str) -> str:
        """Return the current state."""
        return self._passed(machine)[-1][1]

    def last_reset(self, machine: str) -> str | None:
        """Return when the machine last came on, with milliseconds, None if that is not known."""
        came = [at for at, state in self._passed(machine) if state == ON]
        return datetime.fromtimestamp(came[-1], UTC).isoformat(timespec="milliseconds") if came else None

    def reset(self, machine: str, body: t.Any) -> None:
        """Start the reset of an action's body. Raises RedfishError."""
        wanted, state = self._wanted(body), self.state(machine)
        if state in (POWERING_ON, POWERING_OFF) or self._courses.get(machine, self._first)[-1][0] > time.time():
            raise RedfishError(409, f"the system is {state} and accepts no other reset now", "ResourceInUse")
        if (state == ON) is (wanted in _SWITCH_ON):
            raise RedfishError(409, f"the system is already {state}, so {wanted} is not possible", "ResourceInUse")
        if wanted in _NEEDS_SYSTEM and self._options.ignores_shutdown:
            return
        now, seconds = time.time(), self._options.power_seconds
        self._courses[machine] = [self._passed(machine)[-1], *((now + n * seconds, s) for n, s in _COURSES[wanted])]
        if self._journal:
            self._journal.write({"machine": machine, "course": self._courses[machine]})

    def _wanted(self, body: t.Any) -> str:
        fields = body if isinstance(body, dict) else {}
        for name in fields:
            if name != "ResetType":
                raise RedfishError(400, f"the action Reset has no parameter {name}", "ActionParameterUnknown")
        wanted = fields.get("ResetType")
        if wanted is None:
            raise RedfishError(400, "the action Reset needs the parameter ResetType", "ActionParameterMissing")
        if wanted not in self._options.reset_types:
            raise RedfishError(400, f"ResetType {wanted!r} is not among the allowable values",
                               "ActionParameterNotSupported")
        return str(wanted)

    def _passed(self, machine: str) -> list[Moment]:
        now = time.time()
        return [one for one in self._courses.get(machine, self._first) if one[0] <= now]
