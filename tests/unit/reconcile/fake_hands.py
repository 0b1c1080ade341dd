# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for the hands of all nodes: what they are asked for they have done at once, without a node."""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    SLICES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi, slices
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import READY, REMOVED, Evidence
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi

Json = dict[str, t.Any]


class FakeHands:
    """Answers each write of a ComposableResource with evidence. ``idle``: they do nothing any more.

    ``seen`` is given the object as it is then, when no watch tells of it.
    """

    def __init__(self, api: FakeApi, seen: t.Callable[[Json], object] = lambda raw: None) -> None:
        self._api, self._seen, self.idle = api, seen, False

    def __call__(self, resource: ApiResource, raw: Json) -> None:
        """An object was written."""
        if resource != COMPOSABLE_RESOURCES or self.idle:
            return
        status = raw.get("status") or {}
        device = status.get("cdi_device_id")
        if not device:
            return
        release = cohdi.annotation(raw, cohdi.RELEASE)
        phase = REMOVED if release else READY
        if phase == REMOVED:
            self._withdraw(str(status.get("device_id")))
        text = Evidence(phase, device, uuid=status.get("device_id") or "", release=release).to_json()
        if cohdi.annotation(raw, cohdi.NODE) != text:
            raw["metadata"].setdefault("annotations", {})[cohdi.NODE] = text
            self._seen(self._api.put(resource, raw))

    def _withdraw(self, uuid: str) -> None:
        """The vendor's plugin has looked again."""
        for item in self._api.of(SLICES):
            left = [d for d in slices.devices(item) if slices.attribute(d, "uuid") != uuid]
            if slices.node(item) and len(left) < len(slices.devices(item)):
                self._seen(self._api.put(SLICES, {**item, "spec": {**item["spec"], "devices": left}}))
