# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watches of an engine: which kinds it watches for which roles, and the problems of watches."""

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
    PROVISIONING_REQUESTS,
    SLICES,
    ApiResource,
)
from ...kube.client.verbs import Client
from ...kube.coordination.agent_leases import AGENT_LABELS
from ...kube.watch.reflector import Reflector
from ...kube.watch.store import Store
from ...planning.node.evaluate import OPERATOR, PUBLISHER, SCALER
from ..state.cluster_state import ClusterState
from ..state.node_agents import AGENT

OnChange = Callable[[str, ApiResource, t.Any, t.Any], None]
_ALL = (CLAIMS, SLICES, NODES, COMPOSABLE_RESOURCES)
# Kinds that each of CoHDI's components reads. Each runs with only its own permissions
# (deploy/rbac).
WATCHED: t.Final[Mapping[str, tuple[ApiResource, ...]]] = {
    PUBLISHER: (*_ALL, DEVICE_CLASSES),
    SCALER: (*_ALL, COMPOSABILITY_REQUESTS, PODS),
    OPERATOR: (*_ALL, COMPOSABILITY_REQUESTS),
}
# Further kinds that the scaler reads to plan gated pods.
WATCHED_FOR_GATES: t.Final = (NAMESPACES, DEVICE_CLASSES)


class Watches:
    """Keeps the stores of a ClusterState equal to the API server, as far as ``roles`` need it.

    ``on_change(type, kind, object, old)`` is called for each change, or ``on_echo`` if the store
    already had the object. If pods are gated, all pods are watched, otherwise only pods without a
    node. ``leases`` is the namespace of the node agents' Leases.
    ``provisioning`` says whether ProvisioningRequests are served.
    """

    def __init__(self, client: Client, state: ClusterState, on_change: OnChange, on_echo: OnChange, *,
                 roles: Collection[str], leases: str, provisioning: bool = False) -> None:
        gating = SCALER in roles and state.settings.gating
        needed = [kind for role in sorted(roles) for kind in WATCHED[role]]
        kinds = list(dict.fromkeys([*needed, *(WATCHED_FOR_GATES if gating else ()),
                                    *((PROVISIONING_REQUESTS,) if gating and provisioning else ())]))
        stores = state.stores
        drivers = state.settings.drivers
        # With direct handover, another driver must not show a claim's device either, so watch the
        # slices of all drivers.
        alone = len(drivers) == 1 and not state.settings.direct_models
        selectors = {SLICES: f"spec.driver={drivers[0]}" if alone else None,
                     PODS: None if gating else "spec.nodeName="}

        def told(kind: ApiResource, whom: OnChange = on_change) -> Callable[[str, t.Any, t.Any], None]:
            return lambda type_, obj, old: whom(type_, kind, obj, old)

        self.reflectors = [Reflector(client, kind, stores[kind], told(kind), field_selector=selectors.get(kind),
                                     streaming=True, on_echo=told(kind, on_echo))
                           for kind in kinds]
        if state.agents.kind == AGENT:
            selector = ",".join(f"{name}={value}" for name, value in AGENT_LABELS.items())
            self.reflectors.append(Reflector(client, LEASES, Store({}), told(LEASES), selector, namespace=leases))

    def start(self) -> None:
        """Begin to list and watch."""
        for reflector in self.reflectors:
            reflector.start()

    def relist(self) -> None:
        """List everything again, because a watch may have missed events. ``synced`` is true when
        that is done."""
        for reflector in self.reflectors:
            reflector.relist()

    def stop(self) -> None:
        """End all watches."""
        for reflector in self.reflectors:
            reflector.stop()

    def synced(self) -> bool:
        """Return whether every list has been read.

        A missing CRD of ProvisioningRequests is a problem that stops nothing else.
        """
        return all(reflector.synced.is_set() or (reflector.resource == PROVISIONING_REQUESTS and reflector.not_served)
                   for reflector in self.reflectors)

    def version(self, resource: ApiResource) -> str:
        """Return the resourceVersion up to which a kind is known, empty if it is not known."""
        return next((each.version for each in self.reflectors if each.resource == resource), "")

    def problems(self) -> list[str]:
        """Return the current problems of the watches, each once."""
        return list(dict.fromkeys(said for reflector in self.reflectors if (said := reflector.last_error)))
