#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create a namespace, or remove it if this collection created it and it is empty."""

from __future__ import annotations

DOCUMENTATION = r"""
module: owned_namespace
short_description: Create a namespace, and remove it only if this collection created it and it is
  empty
version_added: 0.1.0
description:
  - Creates a namespace with the label C(app.kubernetes.io/managed-by=composable.infra). An existing
    namespace is used without a change and gets no label, because another user created it.
  - Removes a namespace only if it has this label and no object of another owner is left in it.
    Otherwise the namespace stays, nothing is changed, and the result and a warning give the reason.
  - Objects that Kubernetes or OpenShift put into every namespace do not count, nor do objects that
    are being deleted, also with their owner. Events, Leases and EndpointSlices do not count either.
    Objects with the same label as the namespace belong to this collection.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.cluster
  - composable.infra.cluster.login
options:
  name:
    description: Name of the namespace.
    type: str
    required: true
  state:
    description: Whether the namespace exists after the task.
    type: str
    choices: [present, absent]
    default: present
  own_objects:
    description:
      - Objects that may go together with the namespace, because the caller has made them. Each has at least a
        C(kind) and either a C(name) or C(metadata.name), so that whole definitions can be given.
      - The list may have objects of other namespaces and of the cluster. The module ignores these.
    type: list
    elements: dict
    default: []
  own_releases:
    description:
      - Names of Helm releases of the namespace. Their objects may be removed with the namespace.
      - An object with the annotation C(helm.sh/resource-policy=keep) counts nevertheless.
    type: list
    elements: str
    default: []
  wait:
    description:
      - Whether to wait until the namespace is gone, and before it is created until one that is being deleted is gone.
    type: bool
    default: true
  wait_timeout:
    description: Most seconds to wait.
    type: float
    default: 300
attributes:
  check_mode:
    description: Sends a dry run to the API server and writes nothing.
    support: full
  diff_mode:
    description: Returns name and labels of the namespace before and after.
    support: full
  platform:
    description: Runs where Python and the network path to the API server are.
    platforms: posix
    support: full
notes:
  - To have a namespace removed that was made in another way, give it the label first.
  - Removing needs permission to list all kinds of objects in the namespace. A kind that may not be listed keeps it.
"""

EXAMPLES = r"""
- name: Have a namespace for the driver
  composable.infra.owned_namespace:
    name: dra-driver-nvidia-gpu

- name: Remove the namespace if it has no foreign objects
  composable.infra.owned_namespace:
    name: dra-driver-nvidia-gpu
    state: absent
    own_releases: [dra-driver-nvidia-gpu]
"""

RETURN = r"""
namespace:
  description: The namespace after the task, or as it would be. None when it does not exist.
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
  sample:
    apiVersion: v1
    kind: Namespace
    metadata: {name: dra-driver-nvidia-gpu, labels: {app.kubernetes.io/managed-by: composable.infra}}
left:
  description: Objects that prevent the removal of the namespace, as kind and name.
  returned: success
  type: list
  elements: str
  sample: [ConfigMap settings, Deployment other]
msg:
  description: Why the namespace stays.
  returned: when it should have gone and stays
  type: str
  sample: "namespace monitoring stays: it still holds ConfigMap settings"
"""

import typing as t
from collections.abc import Mapping

from ansible_collections.composable.infra.plugins.module_utils import cluster_module, module_base
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import BadConfiguration
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NAMESPACES, Object
from ansible_collections.composable.infra.plugins.module_utils.kube.client.object_applier import Change, ObjectApplier
from ansible_collections.composable.infra.plugins.module_utils.kube.namespace_contents import NamespaceContents
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import MANAGED_BY
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.leftovers import Own

OWNER = "composable.infra"
SHOWN = 10
SPEC: dict[str, t.Any] = {
    "argument_spec": {
        **cluster_module.CLUSTER_OPTIONS,
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "own_objects": {"type": "list", "elements": "dict", "default": []},
        "own_releases": {"type": "list", "elements": "str", "default": []},
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "float", "default": 300.0},
    },
    "supports_check_mode": True,
}


def work(module: module_base.TaskContext) -> dict[str, t.Any]:
    """Create the namespace, or remove it if it is ours and empty.

    Return ``changed``, ``namespace``, ``left`` and ``diff``, and ``msg`` if it stays. Raise
    BadConfiguration, NotReached after a wait without success, else ApiError.
    """
    params = module.params
    namespaces = ObjectApplier(cluster_module.cluster(params), NAMESPACES, module.check_mode)
    if params["state"] == "present":
        return _result(_have(namespaces, params))
    own = Own((MANAGED_BY, OWNER), frozenset(_place(item) for item in params["own_objects"]),
              frozenset(params["own_releases"]))
    result = _have_not(namespaces, params, own)
    if "msg" in result:
        module.warn(result["msg"])
    return result


def _have(namespaces: ObjectApplier, params: Mapping[str, t.Any]) -> Change:
    name = params["name"]
    if params["wait"] and not namespaces.dry and _leaving(namespaces.find(name)):
        namespaces.wait(name, lambda obj: not _leaving(obj), params["wait_timeout"], _conditions)
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {MANAGED_BY: OWNER}}}
    return namespaces.have(name, body, {})


def _have_not(namespaces: ObjectApplier, params: Mapping[str, t.Any], own: Own) -> dict[str, t.Any]:
    name, before = params["name"], namespaces.find(params["name"])
    if before is not None and not _leaving(before):
        left, why = _reasons(namespaces, before, own)
        if why:
            return {**_result(Change(before, before)), "left": left, "msg": f"namespace {name} stays: {why}"}
    change = namespaces.have_not(name)
    if params["wait"] and not namespaces.dry:
        namespaces.wait(name, lambda obj: obj is None, params["wait_timeout"], _conditions)
        change = Change(change.before, None)
    return _result(change)


def _reasons(namespaces: ObjectApplier, before: Object, own: Own) -> tuple[list[str], str]:
    """Return the objects left in the namespace, and a sentence if it has to stay."""
    if (before["metadata"].get("labels") or {}).get(MANAGED_BY) != OWNER:
        return [], f"it has no label {MANAGED_BY}={OWNER}, so another user created it"
    left = NamespaceContents(namespaces.client).left(before["metadata"]["name"], own)
    more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
    return left, f"it still has {', '.join(left[:SHOWN])}{more}" if left else ""


def _place(item: Mapping[str, t.Any]) -> tuple[str, str]:
    name = item.get("name") or (item.get("metadata") or {}).get("name")
    if not item.get("kind") or not name:
        raise BadConfiguration("own_objects", sorted(item), "each needs a kind, and a name or metadata.name")
    return str(item["kind"]), str(name)


def _leaving(obj: Object | None) -> bool:
    return obj is not None and bool(obj["metadata"].get("deletionTimestamp"))


def _conditions(obj: Object | None) -> str:
    """Return the conditions for which the namespace controller waits."""
    conditions = ((obj or {}).get("status") or {}).get("conditions") or []
    told = [str(c.get("message")) for c in conditions if c.get("status") == "True" and c.get("message")]
    return "; ".join(told) or "it is still being deleted"


def _result(change: Change) -> dict[str, t.Any]:
    return {"changed": change.changed, "namespace": change.after, "left": [], "diff": change.diff(_shown)}


def _shown(obj: Object) -> dict[str, t.Any]:
    return {"name": obj["metadata"]["name"], "labels": obj["metadata"].get("labels") or {}}


def main() -> None:
    """Run the module."""
    module_base.main(SPEC, work)


if __name__ == "__main__":
    main()
