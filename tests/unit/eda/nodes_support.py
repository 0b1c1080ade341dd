# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_nodes.py` and others share."""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.tests.unit.reconcile import objects

Json = dict[str, t.Any]
GPU = "nvidia.com/gpu"


def pod(name: str, *, count: int = 1, **status: t.Any) -> Json:
    """A pod that asks by the extended resource and that the scheduler could place nowhere."""
    raw = objects.pod(name)
    container = {"name": "work", "resources": {"requests": {GPU: str(count)} if count else {"cpu": "1"}}}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    return {**raw, "spec": {"containers": [container]}, "status": {"conditions": [condition], **status}}


def node(name: str, *taints: str, since: str = "1700000000") -> Json:
    """A node with these taints."""
    return {"metadata": {"uid": f"uid-{name}", "name": name},
            "spec": {"taints": [{"key": key, "value": since, "effect": "PreferNoSchedule"} for key in taints]}}


def device_class(name: str, resource: str) -> Json:
    """A DeviceClass that serves an extended resource."""
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": {"extendedResourceName": resource}}
