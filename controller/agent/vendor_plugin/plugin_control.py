# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pods of the vendors' plugins on the agent's node, with their restarts and the reasons against
a restart.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Conflict, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.node.release import NotRestarted

from ..metrics import AgentMetrics
from ..node_operations import Plugin
from ..node_state import NodeState

log = logging.getLogger("composable.infra")


class PluginControl:
    """Find and delete the plugins' pods. Thread-safe."""

    def __init__(self, client: Client, state: NodeState, metrics: AgentMetrics) -> None:
        self._client, self._state, self._metrics = client, state, metrics
        self._deleted: dict[str, float] = {}

    def live(self, plugin: Plugin) -> list[Json]:
        """Return the plugin's pods on this node that have not ended."""
        return [pod for pod in self._state.plugin_pods(plugin) if not pods.ended(pod)]

    def deleted_at(self, plugin: Plugin) -> float | None:
        """Return when a pod of the plugin was deleted last, by ``time.monotonic()``.

        None if none was.
        """
        return self._deleted.get(plugin.driver)

    def delete(self, plugin: Plugin, pod: Json, leaving: Collection[str]) -> bool:
        """Delete the pod, which restarts the plugin.

        Return False if another pod has taken its place.

        ``leaving``: UUIDs of devices that leave the node. Raises ApiError. Raises NotRestarted if
        the plugin shows an unhealthy device that stays.
        """
        if why := self._why_not(plugin, leaving):
            raise NotRestarted(why)
        meta = pod["metadata"]
        try:
            self._client.delete(PODS, meta["name"], meta["namespace"], precondition_uid=meta["uid"])
        except (NotFound, Conflict):
            return False
        self._deleted[plugin.driver] = time.monotonic()
        self._state.pods.remove(pod)
        self._metrics.restarts.inc()
        log.info("Deleted pod %s/%s to restart the plugin of the DRA driver %s", meta["namespace"], meta["name"],
                 plugin.driver)
        return True

    def _why_not(self, plugin: Plugin, leaving: Collection[str]) -> str:
        """Return in a sentence why the plugin must not be restarted, empty if it may.

        NVIDIA's plugin keeps the taints of its health check in memory. After a restart an unhealthy
        device would get claims again.
        """
        sick = [f"device {device} has the taint {taint}" for device, uuid, taint in self._state.sick(plugin.driver)
                if uuid not in leaving]
        return (f"the plugin of the DRA driver {plugin.driver} is not restarted, because {', '.join(sick)}. A restart "
                "would remove the taint. Detach that device, or repair it and delete the plugin's pod") if sick else ""


@dataclass(frozen=True, slots=True)
class HoldingPlugin:
    """A plugin that may have a device open that is being released.

    ``leaving``: UUIDs of the devices that leave.
    """

    control: PluginControl
    plugin: Plugin
    leaving: frozenset[str]

    def pods(self) -> frozenset[str]:
        """Return the UIDs of its pods on this node."""
        return frozenset(str(pod["metadata"].get("uid")) for pod in self.control.live(self.plugin))

    def restart(self) -> None:
        """Delete its pods. Raises NotRestarted or ApiError."""
        for pod in self.control.live(self.plugin):
            self.control.delete(self.plugin, pod, self.leaving)
