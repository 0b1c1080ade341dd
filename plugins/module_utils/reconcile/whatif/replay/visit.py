# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod of a replay, from its arrival to its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ....kube.objects import pods
from ....model.pod import Pod
from ....planning.node.snapshot import Claim
from ....planning.scheduling.queue import QueuedPod
from ....planning.scheduling.snapshot import GatedPod, Placement
from .record import Guest


@dataclass(slots=True, eq=False)
class Visit:
    """A pod that comes to a replay.

    ``lifetime`` is how many seconds it runs. ``placement`` and ``claims`` (by UID) are those on its
    node.
    """

    guest: Guest
    pod: GatedPod
    lifetime: float
    queued: QueuedPod | None = None
    placement: Placement | None = None
    claims: Mapping[str, Claim] = field(default_factory=dict)

    @classmethod
    def of(cls, pod: GatedPod, came: float, lifetime: float) -> Visit:
        """Return a visit of a pod that comes now."""
        return cls(Guest(f"{pod.ref.namespace}/{pod.ref.name}", pod.ref.namespace, came), pod, lifetime)

    def takes(self) -> Counter[tuple[str, str]]:
        """Return the devices of its placement, by namespace and model."""
        found: Counter[tuple[str, str]] = Counter()
        for needs in self.placement.needs.values() if self.placement else ():
            found.update({(self.guest.namespace, model): n for model, n in needs.items()})
        return found

    def claim_name(self, uid: str) -> str:
        """Return the name of a claim. The scheduler makes the claim for extended resources."""
        names = [claim["metadata"]["name"] for claim in self.pod.claims.values()
                 if claim and claim["metadata"]["uid"] == uid]
        return str(names[0]) if names else f"{self.pod.ref.name}-extended-resources"

    def bound(self, node: str) -> Pod:
        """Return the pod as bound to its node."""
        spec = {key: value for key, value in self.pod.raw["spec"].items() if key != "schedulingGates"}
        return pods.read({**self.pod.raw, "spec": {**spec, "nodeName": node}})
