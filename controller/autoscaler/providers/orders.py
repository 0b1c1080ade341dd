# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is ordered of the providers of nodes: decided within a call, carried out by a thread of its own.

A provider may take longer than the 5 s that Cluster Autoscaler waits. So nobody waits for one: no lock is held while it
is asked, and what is decided or being ordered counts as coming until the provider says so itself.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ansible_collections.composable.infra.controller.autoscaler.errors import ProviderError
from ansible_collections.composable.infra.controller.autoscaler.providers.node_provider import NodeProvider

log = logging.getLogger("composable.infra")
# Orders that are remembered so that their calls can be told what became of them.
PLACED = 200


@dataclass(eq=False, slots=True)
class Order:
    """So many nodes of a group. ``begun``: the provider was asked; ``why``: why nothing comes of it, else empty."""

    group: str
    count: int
    begun: bool = False
    why: str = ""


class NodeOrders:
    """One for a process. Thread-safe. ``providers``: by group."""

    def __init__(self, providers: Mapping[str, NodeProvider]) -> None:
        self._providers = providers
        self._open: list[Order] = []
        self._placed: deque[Order] = deque(maxlen=PLACED)
        self._coming: dict[str, int] = {}
        self._changes: Counter[str] = Counter()
        self._lock = threading.Lock()

    def decide(self, group: str, count: int) -> Order:
        """So many more are coming from now on; ``carry_out`` orders them."""
        order = Order(group, count)
        with self._lock:
            self._open.append(order)
        return order

    def withdraw(self, orders: Collection[Order]) -> None:
        """Nobody waits for these any more: those that the provider was not asked for are dropped."""
        with self._lock:
            self._open = [each for each in self._open if each.begun or each not in orders]

    def ahead(self, group: str) -> int | None:
        """Nodes of a group that are decided, being ordered or on their way; None while its provider does not say."""
        with self._lock:
            if group not in self._coming:
                return None
            return self._coming[group] + sum(order.count for order in self._open if order.group == group)

    def carry_out(self) -> None:
        """Order what is decided, one after the other."""
        while order := self._begin_next():
            try:
                self._providers[order.group].grow(order.count)
                log.info("NodesOrdered group %s: %d more", order.group, order.count)
            except ProviderError as error:
                log.warning("NodesNotOrdered group %s: %s", order.group, error)
                order.why = str(error) or "no reason was given"
            finally:
                self._end(order)

    def _begin_next(self) -> Order | None:
        with self._lock:
            order = next((each for each in self._open if not each.begun), None)
            if order:
                order.begun = True
                self._changes[order.group] += 1
            return order

    def _end(self, order: Order) -> None:
        """What failed may have been carried out in part: the group grows again once its provider says how many come."""
        with self._lock:
            self._open.remove(order)
            self._changes[order.group] += 1
            if order.why:
                self._coming.pop(order.group, None)
            elif order.group in self._coming:
                self._coming[order.group] += order.count
            if not order.why:
                self._placed.append(order)

    def look(self) -> None:
        """Ask each provider how many are coming. One that does not answer adds no nodes for now."""
        for group, provider in self._providers.items():
            with self._lock:
                before = self._changes[group]
            try:
                coming: int | None = provider.coming()
                if why := provider.failed():
                    self._fail(group, why)
            except ProviderError as error:
                log.warning("provider of group %s: %s", group, error)
                coming = None
            self._note(group, before, coming)

    def _fail(self, group: str, why: str) -> None:
        """Something that was ordered will not come: whoever waits for nodes of the group is told."""
        log.warning("NodesNotComing group %s: %s", group, why)
        with self._lock:
            for order in self._placed:
                if order.group == group:
                    order.why = why

    def _note(self, group: str, before: int, coming: int | None) -> None:
        """An answer from before an order is old."""
        with self._lock:
            if coming is None:
                self._coming.pop(group, None)
            elif self._changes[group] == before:
                self._coming[group] = coming
