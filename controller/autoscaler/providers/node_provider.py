# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider of nodes can do, as functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.composable.infra.controller.autoscaler.errors import ProviderError
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import NodeGroup

Registered = Callable[[], Sequence[Mapping[str, Any]]]
"""The Node objects of the group that there are."""


@dataclass(frozen=True, slots=True)
class NodeProvider:
    """Who adds and removes the nodes of one group. Each function raises ProviderError.

    ``coming``: how many nodes were ordered and are none yet. ``grow``: order so many more. ``shrink``: remove the node
    of this name, whose devices are gone; asked again it does nothing more. ``removable``: why it cannot remove that
    node, empty when it can. ``failed``: why something that was ordered will not come, each time once; empty for
    nothing.
    """

    coming: Callable[[], int]
    grow: Callable[[int], None]
    shrink: Callable[[str], None]
    removable: Callable[[str], str] = lambda _node: ""
    failed: Callable[[], str] = lambda: ""


Build = Callable[[NodeGroup, Client, Registered], NodeProvider]


def no_provider(group: NodeGroup, _client: Client, _registered: Registered) -> NodeProvider:
    """A group whose nodes nobody adds or removes."""
    why = f"group {group.id} has no provider of nodes"

    def refuse(_what: object) -> None:
        raise ProviderError(why)

    return NodeProvider(lambda: 0, refuse, refuse, lambda _node: why)
