# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wanted power of one machine: by which resets it gets there, and waiting until the machine shows it.

An accepted reset says nothing: the power is what the machine shows (DSP0266, ComputerSystem.PowerState).
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
# Redfish's resets for each, the ones to be preferred first; with force those that ask no system.
_GENTLE: t.Final = {ON: ("On", "ForceOn"), OFF: ("GracefulShutdown",), RESTARTED: ("GracefulRestart",)}
_FORCED: t.Final = {ON: ("On", "ForceOn"), OFF: ("ForceOff",), RESTARTED: ("PowerCycle", "ForceRestart")}
_SHOWN: t.Final = {ON: "On", OFF: "Off", RESTARTED: "On"}


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """``steps``: (state to be reached, reset type), one after the other; none: the power is as it shall be."""

    before: MachinePower
    steps: tuple[tuple[str, str], ...]

    @property
    def after(self) -> str:
        """What the machine shows at the end."""
        return _SHOWN[self.steps[-1][0]] if self.steps else self.before.state


def manager_of(fabric: FabricManager, name: str) -> PowerManager:
    """The fabric as one that switches machines. ``name``: of the manager. Raises Refused for one that does not."""
    if not (fabric.capabilities.powers and isinstance(fabric, PowerManager)):
        raise Refused(f"manager: {name} switches no machines on or off; ask a manager that does (redfish, sunfish), "
                      "for example the machine's own BMC with manager=redfish")
    return fabric


def plan(fabric: FabricManager, power: PowerManager, machine: str, state: str, force: bool) -> PowerPlan:
    """What must be asked so that a machine (uid or name) has a power; asks for no change.

    Raises Missing for an unknown machine, Refused when the machine offers no reset that leads there.
    """
    before = power.power(lookup.machine(fabric, machine).uid)
    off = before.state in ("Off", "PoweringOff")
    if before.state == _SHOWN[state] and state != RESTARTED:
        return PowerPlan(before, ())
    if state == RESTARTED and off:
        state = ON
    ways = _ways(before, state, force)
    if not ways:
        raise Refused(f"state: machine {before.name} cannot be {state} {'by force' if force else 'gracefully'}; it "
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
    return "; with force it can" if not force and _ways(before, state, True) else ""


def carry_out(power: PowerManager, found: PowerPlan, seconds: float, wait: bool) -> MachinePower:
    """Ask, and wait until the machine shows what was asked for; returns its power then.

    ``seconds``: most time for all steps. Without ``wait`` it returns when the last reset is accepted. Raises Uncertain
    when the time is over, and as PowerManager.reset.
    """
    now, patience = found.before, Patience(seconds)
    for number, (state, reset_type) in enumerate(found.steps):
        doubt = _ask(power, now, reset_type)
        if wait or doubt or number + 1 < len(found.steps):
            now = _await(power, now, (state, reset_type), patience, doubt, seconds)
    return now if wait or not found.steps else power.power(now.machine)


def _ask(power: PowerManager, now: MachinePower, reset_type: str) -> FabricError | None:
    """None once accepted. A lost reply, and a machine that is switching already, are for the power to clear up."""
    try:
        power.reset(now.machine, reset_type)
    except (Busy, Uncertain) as error:
        return error
    return None


def _await(power: PowerManager, before: MachinePower, step: tuple[str, str], patience: Patience,
           doubt: FabricError | None, seconds: float) -> MachinePower:
    """The power once it is as wanted. ``doubt``: why it is not known whether the reset was accepted."""
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
            raise Uncertain(f"state: machine {before.name} is {shown} {seconds:g} s after it was asked for "
                            f"{reset_type}; its system may ignore that, then use force")
        patience.pause()


def _reached(state: str, before: MachinePower, now: MachinePower, seen: Iterable[str], *, certain: bool) -> bool:
    """A restart shows by the time of the last reset; without one by a power in between, or by its acceptance."""
    if now.state != _SHOWN[state]:
        return False
    if state != RESTARTED:
        return True
    if now.last_reset:
        return now.last_reset != before.last_reset
    return certain or any(one not in ("On", "") for one in seen)


def as_result(found: PowerPlan, now: MachinePower | None = None) -> dict[str, t.Any]:
    """What a module returns. ``now``: the power after the task; None: it is predicted."""
    shown = now or replace(found.before, state=found.after)
    return {"changed": bool(found.steps), "machine": shown.machine, "name": shown.name, "power_state": shown.state,
            "reset_types": list(shown.reset_types), "resets": [reset_type for _state, reset_type in found.steps],
            "diff": {"before": {"power_state": found.before.state}, "after": {"power_state": shown.state}}}
