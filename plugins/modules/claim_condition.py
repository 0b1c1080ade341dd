#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The word that the scheduler waits for, given by hand."""

from __future__ import annotations

DOCUMENTATION = r"""
module: claim_condition
short_description: Set a binding condition on the devices of a ResourceClaim
version_added: 1.0.0
description:
  - Sets a binding condition, or a binding failure condition, on the devices that the scheduler allocated to a
    ResourceClaim and waits for.
  - It is for those who attach devices in their own way and only want to tell the scheduler. The controller and
    M(composable.infra.scale) set these conditions themselves.
  - The condition is written only onto the allocation that was read; a claim that changed meanwhile is refused.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.cluster
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
      - Type of the condition. It must be one that the allocated devices carry, such as V(FabricDeviceReady),
        V(FabricDeviceReschedule) or V(FabricDeviceFailed).
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
    description: Names of the allocated devices that get the condition. All by default.
    type: list
    elements: str
attributes:
  check_mode:
    description: Asks the API server for a dry run and writes nothing.
    support: full
  diff_mode:
    description: Returns the conditions of the devices before and after.
    support: full
  platform:
    description: Runs where Python and the network path to the API server are.
    platforms: posix
    support: full
notes:
  - A condition that has the wanted status is left as it is, with its reason and its message.
seealso:
  - module: composable.infra.claim_info
"""

EXAMPLES = r"""
- name: Tell the scheduler that the device is there
  composable.infra.claim_condition:
    namespace: training
    name: train
    condition: FabricDeviceReady
    reason: Attached
    text: attached by the night shift
"""

RETURN = r"""
devices:
  description: The devices of the claim that carry binding conditions, with their conditions afterwards.
  returned: success
  type: list
  elements: dict
  sample:
    - driver: gpu.nvidia.com
      pool: nvidia-a100-40g-fabric1
      device: nvidia-a100-40g-0
      conditions: {FabricDeviceReady: 'True'}
"""

import time
import typing as t
from collections.abc import Mapping

from ansible_collections.composable.infra.plugins.module_utils import door as doors
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import BadConfiguration
from ansible_collections.composable.infra.plugins.module_utils.kube import claims, cro
from ansible_collections.composable.infra.plugins.module_utils.kube.conditions import device_conditions
from ansible_collections.composable.infra.plugins.module_utils.kube.resource import CLAIMS, Object
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.kube.wishes import Wished

SPEC: dict[str, t.Any] = {
    "argument_spec": {
        **doors.CLUSTER_OPTIONS,
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


def work(door: doors.Door) -> dict[str, t.Any]:
    """Set what is not set yet."""
    params = door.params
    wished = Wished(doors.cluster(params), CLAIMS, door.check_mode)
    claim = wished.client.get(CLAIMS, params["name"], params["namespace"])
    todo = _todo(claim, params)
    after = claim
    if todo:
        body = device_conditions(claim, params["condition"], params["status"], params["reason"], params["text"],
                                 format_time(time.time()), lambda result: result["device"] in todo)
        after = wished.apply_status(params["name"], params["namespace"], body, cro.FIELD_MANAGER)
    rows = _rows(after)
    return {"changed": bool(todo), "devices": rows,
            "diff": {"before": {"devices": _rows(claim)}, "after": {"devices": rows}}}


def _todo(claim: Object, params: Mapping[str, t.Any]) -> set[str]:
    """Names of the devices that lack the condition. Raises BadConfiguration for what the claim does not have."""
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
    """Module entry."""
    doors.main(SPEC, work)


if __name__ == "__main__":
    main()
