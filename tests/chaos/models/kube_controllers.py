# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model of kube-controller-manager for claims.

It removes consumers that are gone, deletes the claims of pods that are gone, and removes the
finalizer of unused claims.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, pods
from ansible_collections.composable.infra.tests.chaos.models.api_server import ApiServer
from ansible_collections.composable.infra.tests.chaos.models.patches import Json
from ansible_collections.composable.infra.tests.chaos.simulation import stand_ins
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Process, Simulation


@dataclass
class ClaimController:
    """The resourceclaim controller, and the garbage collector for claims with an owner."""

    simulation: Simulation
    server: ApiServer
    process: Process = field(default_factory=lambda: Process("kube-controller-manager"))

    def __post_init__(self) -> None:
        self.changed = stand_ins.Event()
        self.server.on_change.append(self._on_change)

    def start(self) -> None:
        """Start the process."""
        self.simulation.spawn(self.process, "claims", self._run)

    def _on_change(self, plural: str, kind: str, obj: Json, old: Json | None) -> None:
        if (plural == "pods" and kind == "DELETED") or plural == "resourceclaims":
            self.changed.set()

    def _run(self) -> None:
        while True:
            self.changed.wait()
            self.changed.clear()
            self.simulation.sleep(0.05)
            living = {pod["metadata"]["uid"] for pod in self.server.of("pods") if pods.phase(pod) != "Succeeded"}
            for claim in self.server.of("resourceclaims"):
                self._sync(claim, living)

    def _sync(self, claim: Json, living: set[str]) -> None:
        meta, consumers = claim["metadata"], claims.consumers(claim)
        left = [c for c in consumers if c["uid"] in living]
        if len(left) < len(consumers):
            status = {"reservedFor": left} if left else {"reservedFor": None, "allocation": None}
            claim = self.server.update("resourceclaims", meta["name"], meta["namespace"], {"status": status})
        owners = {owner["uid"] for owner in meta.get("ownerReferences") or []}
        if owners and not owners & living and not meta.get("deletionTimestamp"):
            self.server.delete("resourceclaims", meta["name"], meta["namespace"])
            found = self.server.find("resourceclaims", meta["name"], meta["namespace"])
            if found is None:
                return
            claim = found
        if claim["metadata"].get("deletionTimestamp") and not claims.consumers(claim):
            self.server.update("resourceclaims", meta["name"], meta["namespace"],
                               {"status": {"allocation": None}, "metadata": {"finalizers": None}})
