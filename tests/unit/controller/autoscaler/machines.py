# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider of nodes in memory, and a testbed whose real nodes it adds and removes."""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.controller.autoscaler.errors import ProviderError
from ansible_collections.composable.infra.controller.autoscaler.providers.node_provider import NodeProvider
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import AutoscalerConfig
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.testbed import GROUPS, Testbed


class Machines:
    """A node comes when ``arrive`` is called. ``error``: why nothing can be ordered;
    ``denied``: why nothing that was ordered comes."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed, self.ordered, self.removed = testbed, 0, list[str]()
        self.error = self.denied = ""

    def provider(self) -> NodeProvider:
        """A row as the table has."""
        return NodeProvider(lambda: self.ordered, self._grow, self._shrink, failed=self._failed)

    def _failed(self) -> str:
        why, self.denied = self.denied, ""
        if why:
            self.ordered = 0
        return why

    def _grow(self, count: int) -> None:
        if self.error:
            raise ProviderError(self.error)
        self.ordered += count

    def _shrink(self, node: str) -> None:
        if node not in self.removed:
            self.removed.append(node)
            self.testbed.remove_node(node)

    def arrive(self, name: str) -> None:
        """One that was ordered has joined."""
        self.ordered -= 1
        self.testbed.add_node(name)


def regroup(testbed: Testbed, **more: t.Any) -> None:
    """A new process with another configuration."""
    group = {"id": "nodes", "max_size": 5, "fabric": 1, "template": {"cpu": "8", "memory": "32Gi"},
             "provider": {"kind": "static"}, **more.pop("nodes", {})}
    testbed.groups = AutoscalerConfig.from_dict({**GROUPS, "nodes": [group], **more}, testbed.config.settings)
    testbed.start()
