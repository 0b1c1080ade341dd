# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan and apply the wanted power of one machine, and wait until the machine shows it.

An accepted reset proves nothing. Only ComputerSystem.PowerState does (DSP0266).
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..api import FabricManager, MachinePower, PowerManager
from ..errors import Busy, FabricError, Refused, Uncertain
from ..operations.polling import Patience, tolerant
from . import lookup

ON: t.Final = "powered-on"
OFF: t.Final = "powered-off"
RESTARTED: t.Final = "restarted"
STATES: t.Final = (ON, OFF, RESTARTED)
# Redfish reset types for each state, the preferred type first. Forced resets bypass the system.
_GENTLE: t.Final = {ON: ("On", "ForceOn"), OFF: ("GracefulShutdown",), RESTARTED: ("GracefulRestart",)}
_FORCED: t.Final = {ON: ("On", "ForceOn"), OFF: ("ForceOff",), RESTARTED: ("PowerCycle", "ForceRestart")}
_SHOWN: t.Final = {ON: "On", OFF: "Off", RESTARTED: "On"}


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """``steps`` are (state, reset type) in order. No steps means that the power is as wanted."""

    before: MachinePower
    steps: tuple[tuple[str, str], ...]

    @property
    def after(self) -> str:
        """The power that the machine shows at the end."""
        return _SHOWN[self.steps[-1][0]] if self.steps else self.before.state


def manager_of(fabric: FabricManager, name: str) -> PowerManager:
    """Return the fabric as a PowerManager. Raise Refused if the manager ``name`` is none."""
    if not (fabric.capabilities.powers and isinstance(fabric, PowerManager)):
        raise Refused(f"manager: {name} cannot switch machines on or off. Use a manager that does (redfish, sunfish), "
                      "for example the machine's own BMC with manager=redfish")
    return fabric


def plan(fabric: FabricManager, power: PowerManager, machine: str, state: str, force: bool) -> PowerPlan:
    """Return the resets for a machine (uid or name) to reach a state. Request no change.

    Raise Missing for an unknown machine, and Refused if the machine offers no suitable reset.
    """
    before = power.power(lookup.machine(fabric, machine).uid)
    off = before.state in ("Off", "PoweringOff")
    if before.state == _SHOWN[state] and state != RESTARTED:
        return PowerPlan(before, ())
    if state == RESTARTED and off:
        state = ON
    ways = _ways(before, state, force)
    if not ways:
        raise Refused(f"state: machine {before.name} cannot be {state} {'by force' if force else 'gracefully'}. It "
                      f"offers {', '.join(before.reset_types) or 'no reset at all'}{_hint(before, state, force)}")
    return PowerPlan(before, ways)


def _ways(before: MachinePower, state: str, force: bool) -> tuple[tuple[str, str], ...]:
    offered = before.reset_types
    wanted = (_FORCED if force else _GENTLE)[state]
    found = next((name for name in wanted if name in offered), None)
    if found:
        return ((state, found),)
    if state != RESTARTED:
        return ()
    off, on = _ways(before, OFF, force), _ways(before, ON, force)
    return (*off, *on) if off and on else ()


def _hint(before: MachinePower, state: str, force: bool) -> str:
    return ". With force it can" if not force and _ways(before, state, True) else ""


def carry_out(power: PowerManager, found: PowerPlan, seconds: float, wait: bool) -> MachinePower:
    """Request the resets and wait until the machine shows the state. Return its power then.

    ``seconds`` is the time limit for all steps. Without ``wait``, return when the last reset is
    accepted. Raise Uncertain after the time limit, and as PowerManager.reset.
    """
    now, patience = found.before, Patience(seconds)
    for number, (state, reset_type) in enumerate(found.steps):
        doubt = _ask(power, now, reset_type)
        if wait or doubt or number + 1 < len(found.steps):
            now = _await(power, now, (state, reset_type), patience, doubt, seconds)
    return now if wait or not found.steps else power.power(now.machine)


def _ask(power: PowerManager, now: MachinePower, reset_type: str) -> FabricError | None:
    """Request a reset. Return None if it is accepted.

    Return the error if the reply is lost or the machine is already switching. Then the power
    decides.
    """
    try:
        power.reset(now.machine, reset_type)
    except (Busy, Uncertain) as error:
        return error
    return None


def _await(power: PowerManager, before: MachinePower, step: tuple[str, str], patience: Patience,
           doubt: FabricError | None, seconds: float) -> MachinePower:
    """Wait for the wanted power. ``doubt`` is the error that left the reset uncertain."""
    state, reset_type = step
    seen: set[str] = set()
    while True:
        now = tolerant(lambda: power.power(before.machine))
        if now is not None:
            seen.add(now.state)
            if _reached(state, before, now, seen, certain=doubt is None):
                return now
        if patience.over:
            if doubt is not None:
                raise doubt
            shown = (now.state or "of no known power") if now else "not readable"
            raise Uncertain(f"state: machine {before.name} is {shown} {seconds:g} s after the request for "
                            f"{reset_type}. Its system may have ignored the request. If so, use force")
        patience.pause()


def _reached(state: str, before: MachinePower, now: MachinePower, seen: Iterable[str], *, certain: bool) -> bool:
    """Return whether the state is reached.

    For a restart, compare the time of the last reset. Without that time, look for another power in
    between, or trust an accepted reset.
    """
    if now.state != _SHOWN[state]:
        return False
    if state != RESTARTED:
        return True
    if now.last_reset:
        return now.last_reset != before.last_reset
    return certain or any(one not in ("On", "") for one in seen)


def as_result(found: PowerPlan, now: MachinePower | None = None) -> dict[str, t.Any]:
    """Return the result of a module. ``now`` is the power after the task, or None to predict it."""
    shown = now or replace(found.before, state=found.after)
    return {"changed": bool(found.steps), "machine": shown.machine, "name": shown.name, "power_state": shown.state,
            "reset_types": list(shown.reset_types), "resets": [reset_type for _state, reset_type in found.steps],
            "diff": {"before": {"power_state": found.before.state}, "after": {"power_state": shown.state}}}
