# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node already has of one model, sorted by what can be done with it."""

from __future__ import annotations

from dataclasses import dataclass

from .settings import Settings
from .view import NodeView, Resource


@dataclass(frozen=True, slots=True)
class Supply:
    """ComposableResources of one model on one node, each in exactly one of the four lists."""

    used: tuple[Resource, ...]
    held: tuple[Resource, ...]
    idle: tuple[Resource, ...]
    coming: tuple[Resource, ...]

    @property
    def bound(self) -> int:
        """Devices that somebody has: in use, or handed to a claim that is about to take them."""
        return len(self.used) + len(self.held)


def supply(view: NodeView, model: str, settings: Settings) -> Supply:
    """Sort the live resources of a model. A resource without a visible device counts as coming."""
    used, held, idle, coming = [], [], [], []
    for resource in view.live(model):
        if resource.used_by:
            used.append(resource)
        elif resource.hold_alive:
            held.append(resource)
        elif resource.visible and resource.device_uid and _rested(resource, view.now, settings):
            idle.append(resource)
        else:
            coming.append(resource)
    idle.sort(key=lambda r: (r.created, r.name))
    return Supply(tuple(used), tuple(held), tuple(idle), tuple(coming))


def _rested(resource: Resource, now: float, settings: Settings) -> bool:
    return not resource.last_used or now - resource.last_used >= settings.device_no_allocation_duration


def kept(surplus: list[Resource], view: NodeView, settings: Settings) -> tuple[int, float | None]:
    """How many devices that nobody wants stay attached for now, and when the first of them is due.

    A device stays for ``device_no_removal_duration`` after its last use, and until the end of its use is written
    down; one whose attach is under way stays until the CDI Manager has answered; one that cannot be attached does
    not stay at all.
    """
    staying, due = 0, []
    for resource in surplus:
        if resource.busy or resource.in_use:
            staying += 1
        elif not resource.device_uid and resource.model in view.blocked:
            continue
        elif view.now - resource.idle_since < settings.device_no_removal_duration:
            staying += 1
            due.append(resource.idle_since + settings.device_no_removal_duration)
    return staying, min(due, default=None)
