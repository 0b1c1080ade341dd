#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set the wanted number of devices of a model on a node, as an object of the cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: composability_request
short_description: Manage a ComposabilityRequest
version_added: 0.1.0
description:
  - Creates, changes or deletes a ComposabilityRequest (C(cro.hpsys.ibm.ie.com/v1alpha1)). For such a request the
    operator attaches devices of a model to a node.
  - In check mode, the module sends a dry run to the API server. So the result has the same defaults
    and the same refusals as the real run.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.cluster
  - composable.infra.cluster.login
options:
  name:
    description: Name of the ComposabilityRequest.
    type: str
    required: true
  state:
    description: Whether the ComposabilityRequest exists. When it is deleted, all its devices are returned.
    type: str
    choices: [present, absent]
    default: present
  model:
    description: Model as the CDI Manager names it. Needed for O(state=present).
    type: str
  size:
    description:
      - Number of devices. With V(0) the request stays and all its devices are returned.
      - Needed for O(state=present).
    type: int
  kind:
    description: Kind of device.
    type: str
    choices: [gpu, cxlmemory]
    default: gpu
  node:
    description: Node that gets the devices.
    type: str
  allocation_policy:
    description: Whether all devices go to one node, or each device to a different node, when O(node) is not given.
    type: str
    choices: [samenode, differentnode]
  force_detach:
    description: Whether a device is detached even when something on the node still uses it.
    type: bool
  labels:
    description:
      - Labels that the object has after the task. Values are strings. A null value removes the
        label.
      - Labels that are not named stay as they are.
    type: dict
  annotations:
    description: Annotations that the object has after the task, as O(labels).
    type: dict
  wait:
    description: Whether to wait until all devices are attached, or until the request is deleted.
    type: bool
    default: false
  wait_timeout:
    description: Seconds to wait at most.
    type: float
    default: 300.0
attributes:
  check_mode:
    description: Sends a dry run to the API server and writes nothing.
    support: full
  diff_mode:
    description: Returns specification, labels and annotations before and after.
    support: full
  platform:
    description: Runs where Python and the network path to the API server are.
    platforms: posix
    support: full
seealso:
  - module: composable.infra.composability_request_info
  - module: composable.infra.scale
  - module: composable.infra.fabric_device
"""

EXAMPLES = r"""
- name: Two GPUs for node-0
  composable.infra.composability_request:
    name: node-0-a100
    node: node-0
    model: A100 40G
    size: 2
    labels: {team: training}
    wait: true

- name: Return them
  composable.infra.composability_request:
    name: node-0-a100
    state: absent
    wait: true
"""

RETURN = r"""
request:
  description: The object as the API server has it after the task, or would have it. None when it does not exist.
  returned: success
  type: dict
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
    apiVersion: cro.hpsys.ibm.ie.com/v1alpha1
    kind: ComposabilityRequest
    metadata: {name: node-0-a100}
    spec:
      resource: {type: gpu, model: A100 40G, size: 2, target_node: node-0, allocation_policy: samenode}
    status: {state: Running}
"""

import typing as t
from collections.abc import Mapping

from ansible_collections.composable.infra.plugins.module_utils import cluster_module, module_base
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import BadConfiguration
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABILITY_REQUESTS, Object
from ansible_collections.composable.infra.plugins.module_utils.kube.client.object_applier import Change, ObjectApplier
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi

SPEC: dict[str, t.Any] = {
    "argument_spec": {
        **cluster_module.CLUSTER_OPTIONS,
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "model": {"type": "str"},
        "size": {"type": "int"},
        "kind": {"type": "str", "choices": ["gpu", "cxlmemory"], "default": "gpu"},
        "node": {"type": "str"},
        "allocation_policy": {"type": "str", "choices": ["samenode", "differentnode"]},
        "force_detach": {"type": "bool"},
        "labels": {"type": "dict"},
        "annotations": {"type": "dict"},
        "wait": {"type": "bool", "default": False},
        "wait_timeout": {"type": "float", "default": 300.0},
    },
    "required_if": [("state", "present", ("model", "size"))],
    "supports_check_mode": True,
}


def work(module: module_base.TaskContext) -> dict[str, t.Any]:
    """Create, change or delete one ComposabilityRequest. With ``wait``, wait for the result.

    Return ``changed``, ``request`` (empty if it is gone) and ``diff`` of spec and labels. Raise
    BadConfiguration for options that exclude each other, NotReached after ``wait_timeout`` seconds,
    or ApiError.
    """
    params, name = module.params, module.params["name"]
    requests = ObjectApplier(cluster_module.cluster(params), COMPOSABILITY_REQUESTS, module.check_mode)
    present = params["state"] == "present"
    change = _have(requests, params) if present else requests.have_not(name)
    after = change.after
    if params["wait"] and not module.check_mode:
        after = requests.wait(name, _running if present else _gone, params["wait_timeout"], _told)
    return {"changed": change.changed, "request": cohdi.without_bookkeeping(after) if after else None,
            "diff": change.diff(_shown)}


def _have(requests: ObjectApplier, params: Mapping[str, t.Any]) -> Change:
    if params["size"] < 0:
        raise BadConfiguration("size", params["size"], "it must be 0 or more")
    if params["node"] and params["allocation_policy"] == "differentnode":
        raise BadConfiguration("allocation_policy", "differentnode", "with node only samenode is allowed")
    fields = {"type": params["kind"], "model": params["model"], "size": params["size"], "target_node": params["node"],
              "allocation_policy": params["allocation_policy"], "force_detach": params["force_detach"]}
    spec = {"spec": {"resource": {key: value for key, value in fields.items() if value is not None}}}
    notes = {kind: _texts(kind, params[kind]) for kind in ("labels", "annotations") if params[kind]}
    new = {kind: {key: value for key, value in given.items() if value is not None} for kind, given in notes.items()}
    body = {"apiVersion": cohdi.GROUP_VERSION, "kind": "ComposabilityRequest",
            "metadata": {"name": params["name"], "finalizers": [cohdi.FINALIZER], **new}, **spec}
    return requests.have(params["name"], body, {**spec, "metadata": notes} if notes else spec)


def _texts(option: str, given: Mapping[str, t.Any]) -> dict[str, str | None]:
    """Return the texts. Raise BadConfiguration for other values.

    YAML reads 1, 0.5 and yes as other types, and the intended text is unknown.
    """
    for key, value in given.items():
        if value is not None and not isinstance(value, str):
            raise BadConfiguration(f"{option}.{key}", value, "it must be a string in quotes, or null")
    return {str(key): value for key, value in given.items()}


def _shown(obj: Object) -> dict[str, t.Any]:
    meta = {kind: obj["metadata"][kind] for kind in ("labels", "annotations") if obj["metadata"].get(kind)}
    return {**obj["spec"], **meta}


def _running(obj: Object | None) -> bool:
    return obj is not None and (obj.get("status") or {}).get("state") == "Running"


def _gone(obj: Object | None) -> bool:
    return obj is None


def _told(obj: Object | None) -> str:
    status = (obj or {}).get("status") or {}
    return str(status.get("error") or f"it is {status.get('state') or 'not taken up by an operator'}")


def main() -> None:
    """Run the module."""
    module_base.main(SPEC, work)


if __name__ == "__main__":
    main()
