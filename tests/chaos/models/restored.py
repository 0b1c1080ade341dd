# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The work that a restore of etcd leaves to the administrator (docs/guides/alerts.md).

A device that was attached since the backup belongs to no ComposableResource. A pod that was placed
before the backup may have devices that have left its node since. The restored cluster alone cannot
show either.
"""

from __future__ import annotations

import math

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, pods
from ansible_collections.composable.infra.tests.chaos.models.patches import Json
from ansible_collections.composable.infra.tests.chaos.world import World

# After this time, a request that was in flight during the restore has arrived at the CDI Manager.
ON_THEIR_WAY = 10.0


class Restored:
    """``orphans``: UIDs of devices without a restored ComposableResource. ``pods``: UIDs of placed
    pods.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.orphans: set[str] = set()
        self.pods: set[str] = set()
        self._at = -math.inf
        self._asked: set[str] = set()
        world.on_restore.append(self._on_restore)

    @property
    def ever(self) -> bool:
        """Return whether etcd was restored in this run."""
        return self._at > -math.inf

    def asked(self, token: str) -> bool:
        """Note a request without a recorded intent. Return whether it was in flight during the
        restore.
        """
        excused = self._world.simulation.now - self._at < ON_THEIR_WAY
        if excused:
            self._asked.add(token)
        return excused

    def attached(self, device: str, token: str) -> None:
        """Note a device that came to a machine by a request."""
        self.orphans.discard(device)
        if token in self._asked:
            self.orphans.add(device)

    def has(self, raw: Json) -> bool:
        """Return whether the device of a ComposableResource is on its node. Without a restore it
        always is.
        """
        device = self._world.manager.pool.devices.get(str((raw.get("status") or {}).get("cdi_device_id")))
        machines = {node.name: node.machine for node in self._world.nodes}
        return not self.ever or (device is not None and device.machine == machines.get(raw["spec"]["target_node"]))

    def _on_restore(self) -> None:
        world = self._world
        self._at = world.simulation.now
        known = {raw["status"]["cdi_device_id"] for raw in world.server.of("composableresources")
                 if (raw.get("status") or {}).get("cdi_device_id") and self.has(raw)}
        self.orphans |= world.manager.attached().keys() - known
        placed = {claim["metadata"]["name"] for claim in world.server.of("resourceclaims") if claims.results(claim)}
        self.pods |= {pod["metadata"]["uid"] for pod in world.server.of("pods")
                      if pods.bound(pod) or placed & set(pods.claim_names(pod).values())}
        self._forget_what_has_left()

    def _forget_what_has_left(self) -> None:
        """Remove from restored claims the devices that have left their nodes since."""
        buses = {node.name: node.bus for node in self._world.nodes}
        for claim in self._world.server.of("resourceclaims"):
            uid, bus = claim["metadata"]["uid"], buses.get(claims.node(claim) or "", {})
            granted = self._world.scheduler.granted.get(uid, {})
            self._world.scheduler.granted[uid] = {key: uuid for key, uuid in granted.items() if uuid in bus}
