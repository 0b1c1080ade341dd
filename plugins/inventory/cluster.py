# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory of the nodes of a cluster, joined with the machines of the fabric."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster
short_description: Nodes of a Kubernetes cluster with their composable devices and claims
version_added: 0.1.0
description:
  - Lists the nodes of a Kubernetes cluster and makes a host of each, with its machine, the composable devices attached
    to it, and the ResourceClaims that are allocated on it.
  - When a connection to a CDI Manager is configured (O(endpoint)), the devices are those that the
    CDI Manager reports. Otherwise they are those of the ComposableResources.
  - The name of the inventory file must end in C(cluster.yml) or C(cluster.yaml).
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.cluster
  - composable.infra.cluster.inventory_login
  - composable.infra.fabric
  - composable.infra.environment
  - composable.infra.environment.cluster
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
options:
  plugin:
    description: Name of the plugin.
    type: str
    required: true
    choices: [composable.infra.cluster]
notes:
  - "Groups of nodes: C(has_devices), C(has_idle_gpu) (a GPU that the node shows and no claim has),
    C(waiting) (a pod waits for a device), C(cordoned), C(not_ready), C(unhealthy) (an unhealthy
    device), C(unmapped) (the machine is not known), C(fabric_<number>), and C(model_<model>)."
  - "Variables: C(composable_node), C(composable_machine) (uid), C(composable_fabric), C(composable_problem) (why the
    machine is not known), C(composable_devices) (each with C(visible), C(claim) and C(idle)), C(composable_claims)
    (each with C(claim), C(state), C(handover), C(devices) and C(pods)), C(composable_ready), C(composable_cordoned),
    C(composable_health), C(composable_labels), and C(ansible_host) where the node has an internal address."
  - "A claim that keeps a device of the fabric's pool has C(handover) C(direct). Its device has
    C(claim), though no ResourceSlice of the node shows it (C(visible)). A claim that waits for
    another device in its place, or has no device yet, has C(reschedule). A claim with a device of
    its node has an empty string."
  - Needs the right to list nodes, resourceclaims, resourceslices and composableresources.
seealso:
  - plugin: composable.infra.fabric
    plugin_type: inventory
  - module: composable.infra.claim_info
"""

EXAMPLES = r"""
# my.cluster.yml
plugin: composable.infra.cluster
kubeconfig: /etc/composable-infra/kubeconfig
endpoint: https://fabric-manager.example.com
tenant: 00000000-0000-4000-8000-000000000001
credentials_dir: /etc/composable-infra/credentials
keyed_groups:
  - key: composable_labels['topology.kubernetes.io/zone'] | default('none')
    prefix: zone

# Without endpoint the devices are those of the ComposableResources.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from ansible_collections.composable.infra.plugins.module_utils import cluster_module, fabric_module
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricSnapshot
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    NODES,
    SLICES,
    ApiResource,
    Object,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import NotServed
from ansible_collections.composable.infra.plugins.plugin_utils.cluster_hosts import Cluster, node_hosts
from ansible_collections.composable.infra.plugins.plugin_utils.hosts import Host, HostsPlugin, options


class InventoryModule(HostsPlugin):
    """See DOCUMENTATION."""

    NAME = "composable.infra.cluster"
    ENDINGS = ("cluster.yml", "cluster.yaml")

    def hosts(self) -> list[Host]:
        """Return a host for each node. Read cluster and fabric in parallel."""
        login = {name: self.option(f"kubernetes_{name}") for name in cluster_module.LOGIN_OPTIONS}
        client = cluster_module.cluster({**options(self, cluster_module.API_SERVER_OPTIONS), **login})
        with ThreadPoolExecutor(5) as pool:
            snapshot = pool.submit(self._snapshot)
            nodes, claims, slices, resources = pool.map(lambda kind: _all(client, kind),
                                                        (NODES, CLAIMS, SLICES, COMPOSABLE_RESOURCES))
            return node_hosts(Cluster(nodes, claims, slices, resources, snapshot.result()))

    def _snapshot(self) -> FabricSnapshot | None:
        if not self.option("endpoint"):
            return None
        with closing(fabric_module.fabric(options(self, fabric_module.FABRIC_OPTIONS))) as fabric:
            return fabric.snapshot(())


def _all(client: Client, kind: ApiResource) -> list[Object]:
    """Return all objects of a kind, or none for CoHDI's kind if it is not served."""
    try:
        return client.list(kind).items
    except NotServed:
        if kind == COMPOSABLE_RESOURCES:
            return []
        raise
