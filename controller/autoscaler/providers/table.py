# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of providers of nodes, one row each."""

from __future__ import annotations

from ansible_collections.composable.infra.controller.autoscaler.providers.awx import awx
from ansible_collections.composable.infra.controller.autoscaler.providers.cluster_api import cluster_api
from ansible_collections.composable.infra.controller.autoscaler.providers.node_provider import (
    Build,
    NodeProvider,
    Registered,
    no_provider,
)
from ansible_collections.composable.infra.controller.autoscaler.providers.static import static
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import NodeGroup

PROVIDERS: dict[str, Build] = {"none": no_provider, "static": static, "cluster-api": cluster_api, "awx": awx}


def provider_of(group: NodeGroup, client: Client, registered: Registered) -> NodeProvider:
    """Return the provider of a group. Raises BadSetting if its configuration cannot be used."""
    return PROVIDERS[str(group.provider["kind"])](group, client, registered)
