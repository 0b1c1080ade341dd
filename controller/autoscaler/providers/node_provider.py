# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The functions of a provider of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansible_collections.composable.infra.controller.autoscaler.errors import ProviderError
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.model.node import Node
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import NodeGroup

Registered = Callable[[], Sequence[Node]]
"""The group's Node objects that exist."""


@dataclass(frozen=True, slots=True)
class NodeProvider:
    """Add and remove the nodes of one group. Each function raises ProviderError.

    ``coming``: returns how many nodes are ordered and have not joined. ``grow``: orders so many
    more. ``shrink``: removes the node with this name after its devices are gone. A second call
    changes nothing. ``removable``: returns why it cannot remove the node, empty if it can.
    ``failed``: returns once why ordered nodes will not come, empty for none.
    """

    coming: Callable[[], int]
    grow: Callable[[int], None]
    shrink: Callable[[str], None]
    removable: Callable[[str], str] = lambda _node: ""
    failed: Callable[[], str] = lambda: ""


Build = Callable[[NodeGroup, Client, Registered], NodeProvider]


def no_provider(group: NodeGroup, _client: Client, _registered: Registered) -> NodeProvider:
    """Return a provider for a group without one. It refuses to add or remove nodes."""
    why = f"group {group.id} has no provider of nodes in the configuration"

    def refuse(_what: object) -> None:
        raise ProviderError(why)

    return NodeProvider(lambda: 0, refuse, refuse, lambda _node: why)
