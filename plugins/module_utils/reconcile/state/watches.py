# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watches of one engine: which kinds are watched for which roles, and what is wrong with a watch."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Collection, Mapping

from ...kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    DEVICE_CLASSES,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SLICES,
    ApiResource,
)
from ...kube.client.verbs import Client
from ...kube.watch.reflector import Reflector
from ...kube.watch.store import Store
from ...planning.node.evaluate import OPERATOR, PUBLISHER, SCALER
from .cluster_state import ClusterState
from .node_hands import AGENT, AGENT_LABELS

Json = dict[str, t.Any]
OnChange = Callable[[str, ApiResource, Json, "Json | None"], None]
_ALL = (CLAIMS, SLICES, NODES, COMPOSABLE_RESOURCES)
# What each of CoHDI's components reads, and no more: each runs with the permissions that it has alone (deploy/rbac).
WATCHED: t.Final[Mapping[str, tuple[ApiResource, ...]]] = {
    PUBLISHER: (*_ALL, DEVICE_CLASSES),
    SCALER: (*_ALL, COMPOSABILITY_REQUESTS, PODS),
    OPERATOR: (*_ALL, COMPOSABILITY_REQUESTS),
}
# What the scaler reads besides where it judges held pods.
WATCHED_FOR_GATES: t.Final = (NAMESPACES, DEVICE_CLASSES)


class Watches:
    """Keeps the stores of a ClusterState equal to what the API server has, as far as ``roles`` need it.

    ``on_change(type, kind, object, old)`` is called for each watched change, ``on_echo`` instead where the store had
    the object already. Where pods are held all pods are watched, else those without a node. ``leases``: the namespace
    in which node agents have Leases.
    """

    def __init__(self, client: Client, state: ClusterState, on_change: OnChange, on_echo: OnChange, *,
                 roles: Collection[str], leases: str) -> None:
        gating = SCALER in roles and state.settings.gating
        needed = [kind for role in sorted(roles) for kind in WATCHED[role]]
        kinds = list(dict.fromkeys([*needed, *(WATCHED_FOR_GATES if gating else ())]))
        stores = state.stores
        drivers = state.settings.drivers
        # A device that a claim keeps must not be shown by another driver either.
        alone = len(drivers) == 1 and not state.settings.direct_models
        selectors = {SLICES: f"spec.driver={drivers[0]}" if alone else None,
                     PODS: None if gating else "spec.nodeName="}

        def told(kind: ApiResource, whom: OnChange = on_change) -> Callable[[str, Json, Json | None], None]:
            return lambda type_, obj, old: whom(type_, kind, obj, old)

        self.reflectors = [Reflector(client, kind, stores[kind], told(kind), field_selector=selectors.get(kind),
                                     streaming=True, on_echo=told(kind, on_echo))
                           for kind in kinds]
        if state.hands.kind == AGENT:
            selector = ",".join(f"{name}={value}" for name, value in AGENT_LABELS.items())
            self.reflectors.append(Reflector(client, LEASES, Store({}), told(LEASES), selector, namespace=leases))

    def start(self) -> None:
        """Begin to list and watch."""
        for reflector in self.reflectors:
            reflector.start()

    def relist(self) -> None:
        """List again what was read; ``synced`` is true once that is reported. A watch may have missed anything."""
        for reflector in self.reflectors:
            reflector.relist()

    def stop(self) -> None:
        """End all watches."""
        for reflector in self.reflectors:
            reflector.stop()

    def synced(self) -> bool:
        """True once every list has been read."""
        return all(reflector.synced.is_set() for reflector in self.reflectors)

    def problems(self) -> list[str]:
        """What the watches complain about now, each once."""
        return list(dict.fromkeys(said for reflector in self.reflectors if (said := reflector.last_error)))
