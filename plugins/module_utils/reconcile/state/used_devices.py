# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count the devices that claims use, by namespace and model. Count only changed nodes again.

The users of a device depend only on the ComposableResources, slices and claims of its node. So the
three stores know which nodes have changed.
"""

from __future__ import annotations

import threading
import typing as t
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping

from ...kube.watch.store import BaseStore, Changes
from ...kube.watch.value_store import ValueStore
from ...model.claim import ResourceClaim
from ...model.resource import Resource
from .indexers import resource_node, slice_node

Usage = Counter[tuple[str, str]]
"""Count by namespace and model of the CDI Manager."""
# Key for an allocated claim without a node in its allocation.
_ANYWHERE: t.Final = ""


class UsedDevices:
    """Counts that follow the stores from the first call on. Thread-safe.

    ``users(node)`` returns the claims that use devices of a node, by ComposableResource.
    """

    def __init__(self, resources: ValueStore[Resource], slices_: BaseStore, claims_: BaseStore,
                 users: Callable[[str], Mapping[str, ResourceClaim]]) -> None:
        self._resources, self._slices, self._claims, self._users = resources, slices_, claims_, users
        self._changes: list[Changes] = []
        self._by_node: dict[Hashable, Usage] = {}
        self._total: Usage = Counter()
        self._lock = threading.Lock()

    def total(self) -> Usage:
        """Return the devices in use now. The caller owns the result."""
        with self._lock:
            for node in self._changed():
                self._count(str(node))
            self._total = +self._total
            return self._total.copy()

    def _changed(self) -> set[Hashable]:
        self._changes = self._changes or [
            self._resources.follow(resource_node), self._slices.follow(slice_node), self._claims.follow(_node)]
        found = set[Hashable]().union(*(each.take() for each in self._changes))
        if _ANYWHERE in found:
            found |= {*self._resources.keys("node"), *self._by_node}
        return found - {_ANYWHERE, None}

    def _count(self, node: str) -> None:
        users, found = self._users(node), Usage()
        for resource in self._resources.values("node", node):
            if user := users.get(resource.name):
                found[user.namespace, resource.model] += 1
        self._total.subtract(self._by_node.pop(node, Usage()))
        self._total.update(found)
        if found:
            self._by_node[node] = found


def _node(claim: ResourceClaim) -> Iterable[Hashable]:
    return (claim.node or _ANYWHERE,) if claim.results else ()
