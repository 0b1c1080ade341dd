# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The timeline of claims as a table that people read."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.composable.infra.lab.demo.timeline import ClaimTimes

COLUMNS = ("claim", "node", "handover", "called", "allocated", "asked", "attached", "on bus", "driver", "touched",
           "plugin", "visible", "told", "sched. tick", "running")
TEXTS = 3
CALLED = COLUMNS.index("called")
CALLED_NOTE = ("\n'called': the provider of Cluster Autoscaler was called and has chosen the node. Seconds are those"
               "\nsince the pod was created; the scheduler makes its claim when the device is there ('allocated').")
NOTE = ("Seconds since the claim was created. 'on bus' to 'plugin' are the node's steps: its bus shows the device, the"
        "\ndriver is bound, the device was touched, the vendor's DRA plugin was restarted."
        "\n'told': the gate was removed, or FabricDeviceReschedule or FabricDeviceReady was written."
        "\n'sched. tick' is the time from the condition to the next look of the scheduler (every 5 s), for which only"
        "\nreschedule and direct wait; everything up to 'told' is ours, the node's and the fabric's.")


def table(claims: Iterable[ClaimTimes]) -> str:
    """Rows of seconds since each claim's creation, and what the columns mean."""
    shown = list(claims)
    called = any(c.called for c in shown)
    rows = [row if called else row[:CALLED] + row[CALLED + 1:] for row in (COLUMNS, *(_row(c) for c in shown))]
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(_cell(row, widths, i) for i in range(len(row))) for row in rows]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join([*lines, NOTE + CALLED_NOTE if called else NOTE])


def _cell(row: tuple[str, ...], widths: list[int], i: int) -> str:
    return row[i].ljust(widths[i]) if i < TEXTS else row[i].rjust(widths[i])


def _row(claim: ClaimTimes) -> tuple[str, ...]:
    start = claim.created or 0.0
    allocated = claim.allocated or claim.reallocated
    moments = (allocated, claim.asked, claim.attached, claim.on_bus, claim.bound, claim.touched,
               claim.plugin_restarted, None if claim.ready else claim.visible, claim.condition or claim.opened)
    looked = claim.bound_at if claim.ready else claim.deallocated
    tick = looked - claim.condition if looked and claim.condition else None
    return (claim.name, claim.node, _way(claim), _since(claim.called, start), *(_since(m, start) for m in moments),
            _seconds(tick), _since(claim.running, start))


def _way(claim: ClaimTimes) -> str:
    """Its handover; ``autoscaler``: Cluster Autoscaler asked; ``idle``: it got a device that was there already."""
    if claim.called:
        return "autoscaler"
    if claim.allocated is None:
        return "gated" if claim.opened else "idle"
    return "direct" if claim.ready else "reschedule"


def _since(moment: float | None, start: float) -> str:
    return _seconds(moment - start if moment is not None else None)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
