# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the devices of a node are for the agent's own DRA driver, where a label of the node says so."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import nodes
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.reflector import Reflector
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.plugins.module_utils.planning.device_info import DRIVER_LABEL

Json = dict[str, t.Any]


class NodeDriver:
    """``name``: of the own driver, empty for none. ``by_label``: it has the devices only where the label names it.

    Thread-safe. Until the node was read, its devices are not the own driver's.
    """

    def __init__(self, node: str, name: str = "", *, by_label: bool = False) -> None:
        self._node, self._name, self._by_label = node, name, by_label
        self.store = Store({}, trim=nodes.trimmed)

    def reflectors(self, client: Client, on_change: Callable[[], None]) -> list[Reflector]:
        """What has to be watched for it."""
        if not self._by_label:
            return []

        def changed(_kind: str, _obj: Json, _old: Json | None) -> None:
            on_change()

        return [Reflector(client, NODES, self.store, changed, field_selector=f"metadata.name={self._node}")]

    def is_own(self) -> bool:
        """Whether the own driver has the devices of the node."""
        return bool(self._name) and not self.other()

    def other(self) -> str:
        """Whose the devices are where they are not the own driver's, in words; empty where they are."""
        if not self._by_label:
            return ""
        raw = self.store.get(self._node)
        said = str(((raw or {}).get("metadata") or {}).get("labels", {}).get(DRIVER_LABEL) or "")
        return "" if said == self._name else said or f"of a node without the label {DRIVER_LABEL}"
