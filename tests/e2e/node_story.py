# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the nodes of a stage were about when a test failed: evidence, slices, plugin pods, the logs of their parts."""

from __future__ import annotations

import json
from collections.abc import Callable

from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.support import told

LOG_LINES = 25
LOGS = ("agents", "hardware")


def node_story(stage: Stage) -> list[tuple[str, str]]:
    """(title, text) of each part; a part that cannot be read says why."""
    parts: dict[str, Callable[[], str]] = {"ComposableResources": lambda: resources(stage),
                                           "plugins and slices": lambda: plugins(stage)}
    logs = [(f"end of the log of {name}", stage.lab.processes.tail(name, LOG_LINES)) for name in LOGS]
    return [*((title, told(read)) for title, read in parts.items()), *logs]


def resources(stage: Stage) -> str:
    """Name, annotations and status of each."""
    found = [(item["metadata"], item.get("status")) for item in stage.client.list(COMPOSABLE_RESOURCES).items]
    return "\n".join(f"{meta['name']}: {json.dumps(meta.get('annotations'))} {status}" for meta, status in found)


def plugins(stage: Stage) -> str:
    """The vendor's plugin pods of each node, and the devices in its slice."""
    return "\n".join(f"{node}: {[_pod(each) for each in by_hand.plugin_pods(stage.lab, node)]}"
                     f" announces {by_hand.announced(stage.lab, node)}" for node in stage.lab.nodes[:8])


def _pod(pod: dict[str, object]) -> str:
    meta, status = pod["metadata"], pod.get("status") or {}
    assert isinstance(meta, dict)
    assert isinstance(status, dict)
    return f"{meta['name']} {meta['uid']} {status.get('phase')} ending {meta.get('deletionTimestamp')}"
