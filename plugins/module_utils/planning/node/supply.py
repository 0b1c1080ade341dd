# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node already has of one model, sorted by what can be done with it."""

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
        """Devices that somebody has: in use, or handed to a claim that is about to take them."""
        return len(self.used) + len(self.held)


def supply(snapshot: NodeSnapshot, model: str, settings: Settings) -> Supply:
    """Sort the live resources of a model. A resource whose device cannot be used yet counts as coming.

    One of CoHDI's upstream syncer gets no device.
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
    """True for a device that cannot be given back, since nobody can remove it on the node."""
    on_node = bool(resource.device_uid or resource.asked)
    return bool(snapshot.no_hands) and on_node and not (snapshot.forced(resource) or snapshot.lost)


def leaving(resource: ComposableResource, snapshot: NodeSnapshot) -> bool:
    """True for a device on its way out that the scheduler could still give to a claim."""
    going = resource.node_work.asked or resource.state == DELETING or not snapshot.no_hands
    return resource.deleting and resource.visible and going and not (resource.tainted or resource.used_by)


def stuck(resource: ComposableResource, snapshot: NodeSnapshot) -> bool:
    """True for one of these that its node cannot let go now."""
    work = resource.node_work
    return leaving(resource, snapshot) and bool((work.trouble and not work.warning) or snapshot.no_hands)


def stuck_device(snapshot: NodeSnapshot, models: Collection[str]) -> str:
    """Why no pod may be sent to the node for a device of these models, in a sentence; empty when it may.

    What keeps the device is told on its ComposableResource only: it may be a process of another tenant.
    """
    found = next((r for r in snapshot.resources if r.model in models and stuck(r, snapshot)), None)
    if found is None:
        return ""
    return f"{found.serial or found.name} is leaving node {snapshot.name} and cannot now; the scheduler could choose it"


def _may_go(resource: ComposableResource, snapshot: NodeSnapshot) -> bool:
    """True for one that cannot be attached, and for one that the autoscaler's provider lets go."""
    lacking = not resource.device_uid and resource.model in snapshot.blocked
    return lacking or resource.idle_since < snapshot.return_idle(resource.model)


def kept(surplus: list[ComposableResource], snapshot: NodeSnapshot, settings: Settings) -> tuple[int, float | None]:
    """How many devices that nobody wants stay attached for now, and when the first of them is due.

    A device stays for ``device_no_removal_duration`` after its last use, and until the end of its use is written
    down; one whose attach is under way stays until the CDI Manager has answered; one that nobody can remove on the
    node stays until somebody can; one that cannot be attached does not stay at all, nor one of a node that is lost, nor
    one that was idle before the moment that the autoscaler's provider wrote down.
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
