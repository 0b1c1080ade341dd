# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether the devices and the node that were booked for a pod are still there."""

from __future__ import annotations

from ...model.resource import Resource
from ...planning.scheduling.snapshot import Placement
from ..bookings.consumers import unsuitable
from ..state.cluster_state import ClusterState


def lost(state: ClusterState, placement: Placement) -> str:
    """Return why a pod could no longer use what was booked for it, empty if it could.

    A device that its node does not show for a moment is not lost, because the vendor's DRA driver
    restarts when another device arrives.
    """
    if reason := unsuitable(state, placement):
        return f"node {placement.node}: {reason}"
    for key, models in placement.needs.items():
        kept = state.holds.kept_for(key)
        missing = sum(models.values()) - len(kept)
        if missing > 0:
            return f"node {placement.node}: {missing} of the booked devices are gone or used by another pod"
        for each in kept:
            if each.deleting:
                return f"node {placement.node}: device {each.serial} is being removed"
            if taint := _taint(state, each):
                return f"node {placement.node}: device {each.serial} has the taint {taint}"
    return ""


def _taint(state: ClusterState, resource: Resource) -> str:
    """Return the taint by which the DRA driver withholds the device from new claims, or an empty
    string.
    """
    keys = {*state.sight(resource).keys}
    sick = state.sick_devices(resource.node)
    return next((taint for key, taint in sick if key in keys), "")
