# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requested node operations, for playbooks over SSH. The .yml files document the filters."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Iterable, Mapping, Sequence

from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.plugin_utils import node_work


def work(resources: Iterable[Json], hosts: Mapping[str, str], slices: Sequence[Json], claims: Sequence[Json]) -> Json:
    """Return the node operations that are due now."""
    return node_work.node_work(resources, hosts, slices, claims, time.time())


def restarted(resources: Iterable[Json], nodes: Iterable[str]) -> list[Json]:
    """Return the evidence after a restart that happened now."""
    return node_work.plugin_restarted(resources, nodes, time.time())


def pods(found: Iterable[Json], nodes: Iterable[str]) -> list[Json]:
    """Return the pods of the plugins on these nodes."""
    wanted = set(nodes)
    return [pod for pod in node_work.plugin_pods(found) if pod["node"] in wanted]


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters by their names."""
        return {"node_work": work, "node_plugin_restarted": restarted, "node_plugin_pods": pods}
