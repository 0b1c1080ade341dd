# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The devices of one model on a node, sorted by what can be done with them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..settings import Settings
from .snapshot import ComposableResource, NodeSnapshot

DELETING = "Deleting"


@dataclass(frozen=True, slots=True)
class Supply:
    """ComposableResources of one model on one node, each in exactly one of the four lists."""

    used: tuple[ComposableResource, ...]
    held: tuple[ComposableResource, ...]
    idle: tuple[ComposableResource, ...]
    coming: tuple[ComposableResource, ...]

    @property
    def bound(self) -> int:
        """Return the number of devices that a claim uses or that are reserved for a claim."""
        return len(self.used) + len(self.held)


def supply(snapshot: NodeSnapshot, model: str, settings: Settings) -> Supply:
    """Sort the live resources of a model. A resource counts as coming while its device cannot be
    used.

    A resource of CoHDI's upstream syncer without a device is left out, because it gets none.
    """
    used, held, idle, coming = [], [], [], []
    for resource in snapshot.live(model):
        if resource.reclaims and not resource.device_uid:
            continue
        if resource.used_by:
            used.append(resource)
        elif resource.hold_alive:
            held.append(resource)
        elif resource.usable and resource.device_uid and _rested(resource, snapshot.now, settings):
            idle.append(resource)
        else:
            coming.append(resource)
    idle.sort(key=lambda r: (r.created, r.name))
    return Supply(tuple(used), tuple(held), tuple(idle), tuple(coming))


def _rested(resource: ComposableResource, now: float, settings: Settings) -> bool:
    return not resource.last_used or now - resource.last_used >= settings.device_no_allocation_duration


def stays(resource: ComposableResource, snapshot: NodeSnapshot) -> bool:
    """Return whether a device cannot be returned because node operations are not possible."""
    on_node = bool(resource.device_uid or resource.asked)
    return bool(snapshot.no_agent) and on_node and not (snapshot.forced(resource) or snapshot.lost)


def leaving(resource: ComposableResource, snapshot: NodeSnapshot) -> bool:
    """Return whether a device is leaving and kube-scheduler could still allocate it to a claim."""
    going = resource.node_work.asked or resource.state == DELETING or not snapshot.no_agent
    return resource.deleting and resource.visible and going and not (resource.tainted or resource.used_by)


def stuck(resource: ComposableResource, snapshot: NodeSnapshot) -> bool:
    """Return whether a leaving device cannot be removed from its node now."""
    work = resource.node_work
    return leaving(resource, snapshot) and bool((work.trouble and not work.warning) or snapshot.no_agent)


def stuck_device(snapshot: NodeSnapshot, models: Collection[str]) -> str:
    """Return why no pod may go to the node for a device of these models, empty if it may.

    Only the ComposableResource names the process that keeps the device, because it may belong to
    another tenant.
    """
    found = next((r for r in snapshot.resources if r.model in models and stuck(r, snapshot)), None)
    if found is None:
        return ""
    return (f"{found.serial or found.name} cannot be removed from node {snapshot.name} now, and the scheduler could "
            "still choose it")


def _may_go(resource: ComposableResource, snapshot: NodeSnapshot) -> bool:
    """Return whether the attach is blocked, or the autoscaler's provider allows a return."""
    lacking = not resource.device_uid and resource.model in snapshot.blocked
    return lacking or resource.idle_since < snapshot.return_idle(resource.model)


def kept(surplus: list[ComposableResource], snapshot: NodeSnapshot, settings: Settings) -> tuple[int, float | None]:
    """Return how many unneeded devices stay attached for now, and when the first of them is due.

    A device stays for ``device_no_removal_duration`` after its last use, and until the end of its
    use is recorded. It also stays while its attach is in flight, and while node operations are not
    possible. It does not stay if it cannot be attached, if its node is lost, or if it was idle
    before the moment that the autoscaler's provider recorded.
    """
    staying, due = 0, []
    for resource in surplus:
        if resource.busy or resource.in_use or stays(resource, snapshot):
            staying += 1
        elif snapshot.lost or _may_go(resource, snapshot):
            continue
        elif snapshot.now - resource.idle_since < settings.device_no_removal_duration:
            staying += 1
            due.append(resource.idle_since + settings.device_no_removal_duration)
    return staying, min(due, default=None)
