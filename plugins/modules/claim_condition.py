#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set a binding condition, for which the scheduler waits, on the devices of a claim."""

from __future__ import annotations

DOCUMENTATION = r"""
module: claim_condition
short_description: Set a binding condition on the devices of a ResourceClaim
version_added: 0.1.0
description:
  - Sets a binding condition, or a binding failure condition, on the devices that the scheduler has allocated to a
    ResourceClaim. The scheduler waits for such a condition before it binds the pod.
  - Use this module when something else attaches the devices. The controller and M(composable.infra.scale) set these
    conditions themselves.
  - The condition is only written to the allocation that the module has read. The task fails when the claim was changed
    in between.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.cluster
  - composable.infra.cluster.login
options:
  namespace:
    description: Namespace of the claim.
    type: str
    required: true
  name:
    description: Name of the claim.
    type: str
    required: true
  condition:
    description:
      - Type of the condition. The allocated devices must list it as a binding condition or a binding failure condition.
        Examples are V(FabricDeviceReady), V(FabricDeviceReschedule) and V(FabricDeviceFailed).
    type: str
    required: true
  status:
    description: Status of the condition.
    type: str
    choices: ['True', 'False', Unknown]
    default: 'True'
  reason:
    description: Reason of the condition, one word in CamelCase.
    type: str
    default: SetByHand
  text:
    description: Message of the condition.
    type: str
    default: ''
  devices:
    description: Names of the allocated devices that get the condition. By default all of them get it.
    type: list
    elements: str
attributes:
  check_mode:
    description: Sends a dry run to the API server and writes nothing.
    support: full
  diff_mode:
    description: Returns the conditions of the devices before and after.
    support: full
  platform:
    description: Runs where Python and the network path to the API server are.
    platforms: posix
    support: full
notes:
  - A condition that already has the wanted status is not changed, nor are its reason and its message.
seealso:
  - module: composable.infra.claim_info
"""

EXAMPLES = r"""
- name: Tell the scheduler that the device is attached
  composable.infra.claim_condition:
    namespace: training
    name: train
    condition: FabricDeviceReady
    reason: Attached
    text: attached by hand
"""

RETURN = r"""
devices:
  description: The allocated devices that list binding conditions, with their conditions after the task.
  returned: success
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
    conditions:
      description: Status of each condition by its type.
      type: dict
  sample:
    - driver: gpu.nvidia.com
      pool: nvidia-a100-40g-fabric1
      device: nvidia-a100-40g-0
      conditions: {FabricDeviceReady: 'True'}
"""

import time
import typing as t
from collections.abc import Mapping

from ansible_collections.composable.infra.plugins.module_utils import cluster_module, module_base
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import BadConfiguration
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, Object
from ansible_collections.composable.infra.plugins.module_utils.kube.client.object_applier import ObjectApplier
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.conditions import device_conditions
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time

SPEC: dict[str, t.Any] = {
    "argument_spec": {
        **cluster_module.CLUSTER_OPTIONS,
        "namespace": {"type": "str", "required": True},
        "name": {"type": "str", "required": True},
        "condition": {"type": "str", "required": True},
        "status": {"type": "str", "choices": ["True", "False", "Unknown"], "default": "True"},
        "reason": {"type": "str", "default": "SetByHand"},
        "text": {"type": "str", "default": ""},
        "devices": {"type": "list", "elements": "str"},
    },
    "supports_check_mode": True,
}


def work(module: module_base.TaskContext) -> dict[str, t.Any]:
    """Set the condition on the claim's devices that do not have it yet (KEP-5007).

    Return ``changed``, ``devices`` (each with its conditions by type) and ``diff``. Raise
    BadConfiguration for a device or condition that is not in the claim's allocation, Conflict if
    the claim has changed, else ApiError.
    """
    params = module.params
    applier = ObjectApplier(cluster_module.cluster(params), CLAIMS, module.check_mode)
    claim = applier.client.get(CLAIMS, params["name"], params["namespace"])
    todo = _todo(claim, params)
    after = claim
    if todo:
        body = device_conditions(claim, params["condition"], params["status"], params["reason"], params["text"],
                                 format_time(time.time()), lambda result: result["device"] in todo)
        after = applier.apply_status(params["name"], params["namespace"], body, cohdi.FIELD_MANAGER)
    rows = _rows(after)
    return {"changed": bool(todo), "devices": rows,
            "diff": {"before": {"devices": _rows(claim)}, "after": {"devices": rows}}}


def _todo(claim: Object, params: Mapping[str, t.Any]) -> set[str]:
    """Return the devices that lack the condition.

    Raise BadConfiguration for a device or condition that the claim does not have.
    """
    bound = claims.binding_results(claim)
    wanted = set(params["devices"] or (r["device"] for r in bound))
    if unknown := sorted(wanted - {r["device"] for r in bound}):
        allowed = ", ".join(sorted(r["device"] for r in bound)) or "none, the claim is allocated no such device"
        raise BadConfiguration("devices", unknown[0], f"allowed are {allowed}")
    types = sorted({c for r in bound for key in ("bindingConditions", "bindingFailureConditions")
                    for c in r.get(key) or ()})
    if params["condition"] not in types:
        allowed = ", ".join(types) or "none, no allocated device waits for a condition"
        raise BadConfiguration("condition", params["condition"], f"allowed are {allowed}")
    have = {row["device"]: row["conditions"].get(params["condition"]) for row in _rows(claim)}
    return {name for name in wanted if have[name] != params["status"]}


def _rows(claim: Object) -> list[Object]:
    devices = (claim.get("status") or {}).get("devices") or []
    told = {(d.get("driver"), d.get("pool"), d.get("device")): d.get("conditions") or [] for d in devices}
    return [{"driver": r["driver"], "pool": r["pool"], "device": r["device"],
             "conditions": {c["type"]: c["status"] for c in told.get((r["driver"], r["pool"], r["device"]), ())}}
            for r in claims.binding_results(claim)]


def main() -> None:
    """Run the module."""
    module_base.main(SPEC, work)


if __name__ == "__main__":
    main()
