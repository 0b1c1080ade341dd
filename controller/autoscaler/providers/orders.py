# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Orders of nodes. A call decides them, and a thread carries them out.

A provider may take longer than the 5 s that Cluster Autoscaler waits. So no call waits for a
provider, and no lock is held during a request to it. A decided order counts as coming until the
provider itself reports it.
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
# Orders that are kept so that a later failure can be reported to their calls.
PLACED = 200


@dataclass(eq=False, slots=True)
class Order:
    """An order of ``count`` nodes of a group.

    ``begun``: the provider was called. ``why``: why the order failed, else empty.
    """

    group: str
    count: int
    begun: bool = False
    why: str = ""


class NodeOrders:
    """The orders of a process. Thread-safe. ``providers``: by group."""

    def __init__(self, providers: Mapping[str, NodeProvider]) -> None:
        self._providers = providers
        self._open: list[Order] = []
        self._placed: deque[Order] = deque(maxlen=PLACED)
        self._coming: dict[str, int] = {}
        self._changes: Counter[str] = Counter()
        self._lock = threading.Lock()

    def decide(self, group: str, count: int) -> Order:
        """Add an order. Its nodes count as coming from now on. ``carry_out`` orders them."""
        order = Order(group, count)
        with self._lock:
            self._open.append(order)
        return order

    def withdraw(self, orders: Collection[Order]) -> None:
        """Drop these orders, if their provider was not called yet, because no call waits for them.
        """
        with self._lock:
            self._open = [each for each in self._open if each.begun or each not in orders]

    def ahead(self, group: str) -> int | None:
        """Return the nodes of a group that are decided, being ordered or coming.

        None while its provider does not answer.
        """
        with self._lock:
            if group not in self._coming:
                return None
            return self._coming[group] + sum(order.count for order in self._open if order.group == group)

    def carry_out(self) -> None:
        """Carry out the open orders, one after the other."""
        while order := self._begin_next():
            try:
                self._providers[order.group].grow(order.count)
                log.info("NodesOrdered group %s: requested %d more nodes", order.group, order.count)
            except ProviderError as error:
                log.warning("NodesNotOrdered group %s: cannot request nodes: %s", order.group, error)
                order.why = str(error) or "the provider reported no reason"
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
        """Finish an order.

        A failed order may have been carried out in part. So the group grows again only after its
        provider has reported how many nodes come.
        """
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
        """Ask each provider how many nodes are coming.

        A group without an answer gets no new nodes for now.
        """
        for group, provider in self._providers.items():
            with self._lock:
                before = self._changes[group]
            try:
                coming: int | None = provider.coming()
                if why := provider.failed():
                    self._fail(group, why)
            except ProviderError as error:
                log.warning("cannot read the provider of group %s: %s", group, error)
                coming = None
            self._note(group, before, coming)

    def _fail(self, group: str, why: str) -> None:
        """Report the failure to the calls that wait for nodes of the group."""
        log.warning("NodesNotComing group %s: %s", group, why)
        with self._lock:
            for order in self._placed:
                if order.group == group:
                    order.why = why

    def _note(self, group: str, before: int, coming: int | None) -> None:
        """Note an answer, unless an order has changed since the question."""
        with self._lock:
            if coming is None:
                self._coming.pop(group, None)
            elif self._changes[group] == before:
                self._coming[group] = coming
