# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out a plan that makes room: mark the named idle devices, so that the controllers return
them.

Write the same marks as Cluster Autoscaler's provider: the moment before which idle devices need not
stay, and CoHDI's own mark of the devices to delete first. A device that a claim takes meanwhile has
become idle later than that moment, so it stays.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterable

from ....kube.api_resources import COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES
from ....kube.client.verbs import Client
from ....kube.errors import ApiError, NotFound
from ....kube.objects import cohdi
from ....kube.objects.autoscaling import RETURN_IDLE, read_return_idle, return_idle_text
from ....planning.settings import Settings
from .plan import Move, Plan

LOOK_SECONDS: t.Final = 0.5


class NotReleased(ApiError):
    """Some devices are still attached after the given time."""

    def __init__(self, names: Iterable[str], seconds: float) -> None:
        listed = ", ".join(sorted(names))
        super().__init__(0, "Timeout", f"these devices are still attached after {seconds:g} s: {listed}. Check that "
                         "a controller runs, and whether claims use the devices (claim_info and the "
                         "ComposableResources). Then request a new proposal")


class Releases:
    """Writes marks. ``changed`` says whether any write changed an object."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client, self._settings, self.changed = client, settings, False

    def release(self, plan: Plan) -> None:
        """Mark the devices of the plan. Raise ApiError."""
        for move in plan.moves:
            for name in move.devices:
                self._mark(name)
            self._let_go(move)

    def _mark(self, name: str) -> None:
        label = self._settings.label(cohdi.DELETE_FIRST)
        raw = self._client.get(COMPOSABLE_RESOURCES, name)
        if cohdi.annotation(raw, label) != "true":
            self._client.merge_patch(COMPOSABLE_RESOURCES, name, {"metadata": {"annotations": {label: "true"}}})
            self.changed = True

    def _let_go(self, move: Move) -> None:
        raw = self._client.get(COMPOSABILITY_REQUESTS, move.request)
        if read_return_idle(raw) <= move.since:
            body = {"metadata": {"annotations": {RETURN_IDLE: return_idle_text(move.until)}}}
            self._client.merge_patch(COMPOSABILITY_REQUESTS, move.request, body)
            self.changed = True

    def wait(self, plan: Plan, seconds: float) -> None:
        """Wait until the devices are gone. Raise NotReleased and ApiError."""
        deadline = time.monotonic() + seconds
        left = {name for move in plan.moves for name in move.devices}
        while left := {name for name in left if self._there(name)}:
            if time.monotonic() > deadline:
                raise NotReleased(left, seconds)
            time.sleep(LOOK_SECONDS)

    def _there(self, name: str) -> bool:
        try:
            self._client.get(COMPOSABLE_RESOURCES, name)
        except NotFound:
            return False
        return True
