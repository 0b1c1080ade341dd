# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A capture: a cluster and its fabric at one moment, as a value with all that the planners read.

It is read by list requests only. No engine runs for it, and nothing is written.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...fabric.api import FabricManager, FabricSnapshot
from ...kube.api_resources import LEASES
from ...kube.client.verbs import Client
from ...kube.coordination.agent_leases import AGENT_LABELS, AGENT_LEASE
from ...model.value import Json
from ..config import ROLES, EngineConfig
from ..preflight import check_cluster
from ..state.node_agents import AGENT
from .past_arrivals import PastArrivals, read_past
from .redaction import keepers

Objects = Mapping[str, Sequence[Json]]
"""Objects by the plural of their kind."""


@dataclass(frozen=True, slots=True)
class Capture:
    """A captured cluster and fabric.

    ``taken`` is in seconds since the epoch. ``settings`` are the keys of the configuration file
    that the planners read. ``manager`` is the kind of CDI Manager, ``attach_timeout`` is in
    seconds, and ``node_operations`` is as in the configuration. ``agents`` are the nodes with the Lease
    of a node agent, and whether an agent holds it. ``fabric`` is the poll of the CDI Manager, which
    is read first. ``past`` are the claims of the last days.
    """

    taken: float
    settings: Mapping[str, t.Any]
    manager: str
    attach_timeout: float
    node_operations: str
    agents: Mapping[str, bool]
    objects: Objects
    fabric: FabricSnapshot
    past: PastArrivals = field(default_factory=PastArrivals)

    def of(self, plural: str) -> Sequence[Json]:
        """Return the objects of a kind."""
        return self.objects.get(plural, ())

    def with_objects(self, **kinds: t.Iterable[Json]) -> Capture:
        """Return the capture with other objects of these kinds, by their plurals."""
        return replace(self, objects={**self.objects, **{name: tuple(found) for name, found in kinds.items()}})


def take(client: Client, config: EngineConfig) -> Capture:
    """Poll the CDI Manager, then list the cluster. Raise BadConfig, ApiError and FabricError."""
    check_cluster(client, ROLES)
    manager = config.manager()
    try:
        fabric = _look(client, manager, config)
    finally:
        manager.close()
    keep = keepers(config.settings.label)
    objects = {kind.plural: tuple(client.list(kind, trim=trim).items) for kind, trim in keep.items()}
    return Capture(client.server_time(), config.planning, config.fabric.manager, config.fabric.attach_timeout,
                   config.node_operations, _agents(client, config), objects, fabric,
                   read_past(client, config.lease_namespace, config.settings, objects))


def _look(client: Client, manager: FabricManager, config: EngineConfig) -> FabricSnapshot:
    began = client.server_time()
    found = manager.snapshot([model.cdi_model_name for model in config.settings.models])
    return replace(found, taken=began, read=client.server_time())


def _agents(client: Client, config: EngineConfig) -> dict[str, bool]:
    if config.node_operations != AGENT:
        return {}
    selector = ",".join(f"{name}={value}" for name, value in AGENT_LABELS.items())
    found = client.list(LEASES, namespace=config.lease_namespace, label_selector=selector).items
    return {lease["metadata"]["name"].removeprefix(AGENT_LEASE): bool((lease.get("spec") or {}).get("holderIdentity"))
            for lease in found if lease["metadata"]["name"].startswith(AGENT_LEASE)}
