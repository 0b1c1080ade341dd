# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The writers of an engine, one for each kind of object."""

from __future__ import annotations

from ...kube.api_resources import COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES, NODES
from ...kube.client.verbs import Client
from ...kube.watch.keys import key_of
from ...planning.actions import LabelNode
from ..state.cluster_state import ClusterState
from .claims import ClaimWriter
from .object_writer import ObjectWriter, Outlet
from .pods import PodWriter
from .pools import PoolWriter
from .requests import RequestWriter
from .resources import ResourceWriter


class NodeWriter(ObjectWriter):
    """Writes labels of Nodes."""

    def label(self, action: LabelNode) -> None:
        """Set and remove node labels."""
        patch = {"metadata": {"labels": dict(action.labels)}}
        self.state.nodes.upsert(self.client.merge_patch(NODES, action.node, patch))
        self.outlet.changes += 1


class Writer:
    """All writes of an engine to the API server. ``state`` has the stores."""

    def __init__(self, client: Client, state: ClusterState) -> None:
        self.state, self.outlet = state, Outlet(client, state)
        self.resources, self.requests = ResourceWriter(self.outlet), RequestWriter(self.outlet)
        self.claims, self.pods, self.nodes = ClaimWriter(self.outlet), PodWriter(self.outlet), NodeWriter(self.outlet)
        self.pools = PoolWriter(client, state)

    @property
    def client(self) -> Client:
        """Return the client."""
        return self.outlet.client

    @property
    def changes(self) -> int:
        """Return the number of changes, those of pools included."""
        return self.outlet.changes + self.pools.changes

    def read_journal(self) -> None:
        """Read all ComposabilityRequests and ComposableResources from the API server."""
        stores = ((COMPOSABILITY_REQUESTS, self.state.requests), (COMPOSABLE_RESOURCES, self.state.resources))
        for kind, store in stores:
            listed = self.outlet.client.list(kind, trim=store.take_listed)
            store.retain({key_of(obj) for obj in listed.items}, listed.resource_version)
