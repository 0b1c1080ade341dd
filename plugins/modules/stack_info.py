#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the state of the cluster's GPU stack."""

from __future__ import annotations

DOCUMENTATION = r"""
module: stack_info
short_description: State of a cluster's GPU stack
version_added: 0.1.0
description:
  - Reads versions, served APIs, feature gates, nodes with their machines, Helm releases, DaemonSets, ClusterPolicy and
    GPUCluster, DeviceClasses, announced devices, allocated claims, ComposableResources.
  - The roles C(preflight) and C(verify) check what this module returns.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.cluster
  - composable.infra.cluster.login
attributes:
  check_mode:
    description: Can run in check mode, because the module only reads.
    support: full
  diff_mode:
    description: There is nothing to compare, the module only reads.
    support: none
  platform:
    description: Runs where Python and the network path to the API server are.
    platforms: posix
    support: full
"""

EXAMPLES = r"""
- name: Read the cluster
  composable.infra.stack_info:
    kubeconfig: /etc/kubernetes/admin.conf
  register: found

- name: Show which claims have devices
  ansible.builtin.debug:
    msg: "{{ found.stack.claims | map(attribute='name') }}"
"""

RETURN = r"""
stack:
  description: The state of the stack. Lists are sorted. A list of a kind that the cluster does not
    serve is empty.
  returned: success
  type: dict
  contains:
    kubernetes:
      description: Version of the API server.
      type: str
      returned: always
      sample: v1.36.3
    served:
      description: Served resources of the API groups that matter here, as group, version and plural.
      type: list
      elements: str
      returned: always
      sample: [resource.k8s.io/v1/resourceclaims]
    gates:
      description: Feature gates of the API server. Empty when its metrics may not be read.
      type: dict
      returned: always
      sample: {DRADeviceBindingConditions: true}
    nodes:
      description: Nodes with the UUID of their machine on the fabric.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the node.
          type: str
        ready:
          description: Whether the node is ready.
          type: bool
        provider_id:
          description: C(spec.providerID).
          type: str
        machine:
          description: UUID of its machine on the fabric. Empty where it is not known.
          type: str
        kubelet:
          description: Version of the kubelet.
          type: str
        os_image:
          description: Operating system.
          type: str
        labels:
          description: Labels.
          type: dict
        allocatable:
          description: Allocatable amounts of C(nvidia.com/) by name.
          type: dict
        gpu_present:
          description: Whether Node Feature Discovery shows a GPU.
          type: bool
        plugin_config:
          description: Configuration of the device plugin, by the node's label.
          type: str
        mig:
          description: Requested MIG configuration, by the node's label.
          type: str
        mig_state:
          description: State of the MIG configuration, by the node's label.
          type: str
      returned: always
    releases:
      description: Helm releases, each in its newest revision.
      type: list
      elements: dict
      contains:
        namespace:
          description: Namespace.
          type: str
        name:
          description: Name of the release.
          type: str
        status:
          description: Status that Helm keeps.
          type: str
        chart:
          description: Name of the chart.
          type: str
        version:
          description: Version of the chart.
          type: str
      returned: always
    class_selectors:
      description: Texts of the selectors of each DeviceClass, by its name.
      type: dict
      returned: always
    requests:
      description: Device requests of ResourceClaims and ResourceClaimTemplates, with C(object), C(class), C(selectors).
      type: list
      elements: dict
      contains:
        object:
          description: Namespace and name of the claim or the template.
          type: str
        class:
          description: DeviceClass.
          type: str
        selectors:
          description: Texts of its selectors.
          type: list
          elements: str
      returned: always
    claims:
      description: ResourceClaims that have devices allocated.
      type: list
      elements: dict
      contains:
        namespace:
          description: Namespace.
          type: str
        name:
          description: Name.
          type: str
        reserved:
          description: Number of pods for which the claim is reserved.
          type: int
        devices:
          description: Devices that are allocated to the claim.
          type: list
          elements: dict
          contains:
            driver:
              description: DRA driver.
              type: str
            pool:
              description: Name of the pool.
              type: str
            device:
              description: Name of the device in the pool.
              type: str
      returned: always
    problems:
      description: Parts that could not be read.
      type: list
      elements: str
      returned: always
"""

from ansible_collections.composable.infra.plugins.module_utils import cluster_module, module_base
from ansible_collections.composable.infra.plugins.module_utils.stack.reader import Reader

SPEC = {"argument_spec": cluster_module.CLUSTER_OPTIONS, "supports_check_mode": True}


def work(task: module_base.TaskContext) -> dict[str, object]:
    """Read the state of the cluster's GPU stack. Write nothing.

    Return ``stack``. Its ``problems`` name the resources that could not be read. Raise ApiError if
    the API server does not answer at all, and BadKubeconfig for an invalid connection.
    """
    client = cluster_module.cluster(task.params)
    try:
        return {"stack": Reader(client).read()}
    finally:
        client.close()


def main() -> None:
    """Run the module."""
    module_base.main(SPEC, work)


if __name__ == "__main__":
    main()
