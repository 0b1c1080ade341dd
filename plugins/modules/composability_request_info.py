#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the wanted and the attached devices of nodes, from objects of the cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: composability_request_info
short_description: ComposabilityRequests of a cluster with their ComposableResources
version_added: 0.1.0
description:
  - Returns ComposabilityRequests (C(cro.hpsys.ibm.ie.com/v1alpha1)), and the ComposableResources that belong to them.
    Each ComposableResource stands for one device.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.cluster
  - composable.infra.cluster.login
options:
  name:
    description: Name of one ComposabilityRequest. When there is none of this name, the lists are empty.
    type: str
  node:
    description: Return requests for this node only.
    type: str
  model:
    description: Return requests for this model only, as the CDI Manager names it.
    type: str
  label_selectors:
    description: Return requests that all of these label selectors match, as C(kubectl -l) takes them.
    type: list
    elements: str
    default: []
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
seealso:
  - module: composable.infra.composability_request
  - module: composable.infra.fabric_info
"""

EXAMPLES = r"""
- name: Read the requested and the attached devices of node-0
  composable.infra.composability_request_info:
    node: node-0
  register: found

- name: Name what could not be attached, and why
  ansible.builtin.debug:
    msg: "{{ item.metadata.name }}: {{ item.status.error }}"
  loop: "{{ found.requests | selectattr('status.error', 'defined') }}"

- name: Requests of a team
  composable.infra.composability_request_info:
    label_selectors: [team=training]
"""

RETURN = r"""
requests:
  description: The ComposabilityRequests as the API server has them, sorted by name.
  returned: success
  type: list
  elements: dict
  contains:
    apiVersion:
      description: Group and version.
      type: str
    kind:
      description: Kind of the object.
      type: str
    metadata:
      description: Name, labels, annotations and what else the API server keeps of an object.
      type: dict
    spec:
      description: The requested state.
      type: dict
    status:
      description: The status that the controllers reported. Absent before their first report.
      type: dict
  sample:
    - apiVersion: cro.hpsys.ibm.ie.com/v1alpha1
      kind: ComposabilityRequest
      metadata: {name: node-0-a100}
      spec:
        resource: {type: gpu, model: A100 40G, size: 1, target_node: node-0, allocation_policy: samenode}
      status: {state: Running}
resources:
  description: The ComposableResources of these requests as the API server has them, sorted by name.
  returned: success
  type: list
  elements: dict
  contains:
    apiVersion:
      description: Group and version.
      type: str
    kind:
      description: Kind of the object.
      type: str
    metadata:
      description: Name, labels, annotations and what else the API server keeps of an object.
      type: dict
    spec:
      description: The requested state.
      type: dict
    status:
      description: The status that the controllers reported. Absent before their first report.
      type: dict
  sample:
    - apiVersion: cro.hpsys.ibm.ie.com/v1alpha1
      kind: ComposableResource
      metadata: {name: node-0-a100-0, labels: {app.kubernetes.io/managed-by: node-0-a100}}
      spec: {type: gpu, model: A100 40G, target_node: node-0}
      status: {state: Online, device_id: GPU-2f6c1d9e-7a3b-4f5e-9c8d-1a2b3c4d5e6f}
"""

import typing as t
from collections.abc import Mapping
from contextlib import closing

from ansible_collections.composable.infra.plugins.module_utils import cluster_module, module_base
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    Object,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi

SPEC: dict[str, t.Any] = {
    "argument_spec": {
        **cluster_module.CLUSTER_OPTIONS,
        "name": {"type": "str"},
        "node": {"type": "str"},
        "model": {"type": "str"},
        "label_selectors": {"type": "list", "elements": "str", "default": []},
    },
    "supports_check_mode": True,
}


def work(task: module_base.TaskContext) -> dict[str, t.Any]:
    """List the selected requests and their resources. Write nothing. Raise ApiError."""
    params = task.params
    with closing(cluster_module.cluster(params)) as client:
        selector = ",".join(params["label_selectors"]) or None
        listed = client.list(COMPOSABILITY_REQUESTS, label_selector=selector).items
        requests = {obj["metadata"]["name"]: obj for obj in listed if _asked_for(obj, params)}
        resources = client.list(COMPOSABLE_RESOURCES).items if requests else []
    belonging = [obj for obj in resources if (obj["metadata"].get("labels") or {}).get(cohdi.MANAGED_BY) in requests]
    return {"requests": _plain(requests.values()), "resources": _plain(belonging)}


def _asked_for(obj: Object, params: Mapping[str, t.Any]) -> bool:
    wanted = obj["spec"]["resource"]
    return (params["name"] in (None, obj["metadata"]["name"]) and params["model"] in (None, wanted.get("model"))
            and params["node"] in (None, wanted.get("target_node")))


def _plain(found: t.Iterable[Object]) -> list[Object]:
    return sorted(map(cohdi.without_bookkeeping, found), key=lambda obj: str(obj["metadata"]["name"]))


def main() -> None:
    """Run the module."""
    module_base.main(SPEC, work)


if __name__ == "__main__":
    main()
