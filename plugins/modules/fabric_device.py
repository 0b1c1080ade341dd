#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attach and detach devices by hand."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_device
short_description: Attach devices of a composable fabric to a machine, or detach them
version_added: 1.0.0
description:
  - Makes sure that a machine has a number of devices of a model attached, or that a device is detached from it.
  - Speaks to the CDI Manager only. It knows nothing of Kubernetes, so it does not ask whether a pod uses the device;
    for devices of a cluster use M(composable.infra.scale).
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.fabric
options:
  machine:
    description: UUID of the machine.
    type: str
    required: true
  state:
    description:
      - V(attached) attaches until the machine has O(count) devices of O(model).
      - V(detached) detaches O(device).
    type: str
    choices: [attached, detached]
    default: attached
  model:
    description: Model of the device as the CDI Manager names it. Needed to attach.
    type: str
  count:
    description: How many devices of O(model) the machine shall have. A machine that has more keeps them.
    type: int
    default: 1
  device:
    description: Uid of the device at the CDI Manager. Needed to detach.
    type: str
attributes:
  check_mode:
    description: Can run in check mode and predicts the change without asking the CDI Manager for one.
    support: full
  diff_mode:
    description: Returns the devices of the machine before and after.
    support: full
  platform:
    description: Runs where Python and the network path to the CDI Manager are.
    platforms: posix
    support: full
notes:
  - An attach takes as long as the CDI Manager needs; use C(async) and C(poll) to have a handle instead of waiting.
  - When the reply to an attach is lost, the machine is watched for the device before anything is asked again, so a
    lost reply never attaches a second device.
seealso:
  - module: composable.infra.fabric_info
  - module: composable.infra.scale
"""

EXAMPLES = r"""
- name: Give a machine two GPUs
  composable.infra.fabric_device:
    endpoint: https://fabric-manager.example.com
    tenant: 00000000-0000-4000-8000-000000000001
    credentials_dir: /etc/composable-infra/credentials
    machine: 5a2b4a1e-3c1f-5d4e-8f6a-0b1c2d3e4f50
    model: A100 40G
    count: 2

- name: Take one back
  composable.infra.fabric_device:
    endpoint: https://fabric-manager.example.com
    tenant: 00000000-0000-4000-8000-000000000001
    credentials_dir: /etc/composable-infra/credentials
    machine: 5a2b4a1e-3c1f-5d4e-8f6a-0b1c2d3e4f50
    device: 8c9d0e1f-2a3b-4c5d-8e9f-0a1b2c3d4e5f
    state: detached
"""

RETURN = r"""
devices:
  description: Devices that were attached or detached; in check mode empty for an attach, since the manager chooses.
  returned: success
  type: list
  elements: dict
  sample:
    - uid: 8c9d0e1f-2a3b-4c5d-8e9f-0a1b2c3d4e5f
      model: A100 40G
      kind: gpu
      fabric: 1
      machine: 5a2b4a1e-3c1f-5d4e-8f6a-0b1c2d3e4f50
      state: attached
      health: OK
      serial: GPU-2f6c1d9e-7a3b-4f5e-9c8d-1a2b3c4d5e6f
      name: GPU-0
count:
  description: How many devices of the model the machine has afterwards.
  returned: when attaching
  type: int
  sample: 2
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.composable.infra.plugins.module_utils import frontdoor
from ansible_collections.composable.infra.plugins.module_utils.fabric.ensure import attach_missing, of_model
from ansible_collections.composable.infra.plugins.module_utils.fabric.types import Fabric


def attach(module: AnsibleModule, fabric: Fabric) -> dict[str, object]:
    """Attach what is missing."""
    params = module.params
    have = of_model(fabric.machine(params["machine"]), params["model"])
    missing = max(0, params["count"] - len(have))
    new = []
    if missing and not module.check_mode:
        new = attach_missing(fabric, params["machine"], params["model"], params["count"], params["attach_timeout"])
    after = len(have) + missing
    return {"changed": missing > 0, "devices": [frontdoor.device_result(d) for d in new], "count": after,
            "diff": {"before": {params["model"]: len(have)}, "after": {params["model"]: after}}}


def detach(module: AnsibleModule, fabric: Fabric) -> dict[str, object]:
    """Detach one device if it is there."""
    machine = fabric.machine(module.params["machine"])
    found = [d for d in machine.devices if d.uid == module.params["device"]]
    if found and not module.check_mode:
        fabric.detach(machine.uid, found[0].uid)
    uids = [d.uid for d in machine.devices]
    return {"changed": bool(found), "devices": [frontdoor.device_result(d) for d in found],
            "diff": {"before": {"devices": uids},
                     "after": {"devices": [u for u in uids if u != module.params["device"]]}}}


def work(module: AnsibleModule) -> dict[str, object]:
    """Attach or detach."""
    if module.params["count"] < 1:
        module.fail_json(msg=f"count: {module.params['count']} is not usable: must be 1 or more")
    fabric = frontdoor.fabric(module.params)
    return attach(module, fabric) if module.params["state"] == "attached" else detach(module, fabric)


def main() -> None:
    """Module entry."""
    module = AnsibleModule(
        argument_spec={
            **frontdoor.FABRIC_OPTIONS,
            "machine": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["attached", "detached"], "default": "attached"},
            "model": {"type": "str"},
            "count": {"type": "int", "default": 1},
            "device": {"type": "str"},
        },
        required_if=[("state", "attached", ("model",)), ("state", "detached", ("device",))],
        supports_check_mode=True)
    frontdoor.run(module, work)


if __name__ == "__main__":
    main()
