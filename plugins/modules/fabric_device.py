#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attach and detach devices by hand."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_device
short_description: Attach devices of a composable fabric to machines, or detach them
version_added: 1.0.0
description:
  - Makes sure that a machine has a number of devices of a model attached, or that a device is detached from it.
  - With O(attachments) it does so for any number of machines at the same time, with one result for each.
  - Speaks to the CDI Manager only. It knows nothing of Kubernetes, so it does not ask whether a pod uses the device;
    for devices of a cluster use M(composable.infra.scale).
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.fabric
options:
  machine:
    description: Uid or name of the machine. Needed unless O(attachments) is given.
    type: str
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
  kind:
    description: Kind of the device, such as V(gpu) or V(memory).
    type: str
    default: gpu
  device:
    description: Uid of the device at the CDI Manager. Needed to detach.
    type: str
  handle:
    description: Operation that an earlier task began with O(wait=false); the task waits for its end.
    type: str
  attachments:
    description:
      - Wanted attachments, served at the same time. What is to be detached is detached first.
      - One that fails does not keep the others from being served. The task then fails and RV(results) says what became
        of each.
    type: list
    elements: dict
    suboptions:
      machine:
        description: Uid or name of the machine.
        type: str
        required: true
      state:
        description: As O(state).
        type: str
        choices: [attached, detached]
        default: attached
      model:
        description: As O(model).
        type: str
      count:
        description: As O(count).
        type: int
        default: 1
      kind:
        description: As O(kind).
        type: str
        default: gpu
      device:
        description: As O(device).
        type: str
      handle:
        description: As O(handle).
        type: str
  wait:
    description:
      - Whether to wait until the devices are attached.
      - When it is V(false) and the CDI Manager works asynchronously the task ends as soon as the manager has accepted,
        with the operations in the C(handles) of each of RV(results).
      - A CDI Manager that answers only when it is done is always waited for; use C(async) there.
    type: bool
    default: true
attributes:
  check_mode:
    description:
      - Can run in check mode and predicts the change without asking the CDI Manager for one. It fails as the real run
        would when there are not enough free devices.
    support: full
  diff_mode:
    description: Returns the number of devices per machine and model before and after.
    support: full
  platform:
    description: Runs where Python and the network path to the CDI Manager are.
    platforms: posix
    support: full
notes:
  - An attach takes as long as the CDI Manager needs. Where the task runs on the control node with a local connection it
    says with C(-v) how many attachments are done, whenever one is. Ansible shows nothing of any other task before it
    ends; use C(async) and C(poll), or O(wait=false) and later O(handle).
  - When the reply to an attach is lost, the machine is watched for the device before anything is asked again, so a
    lost reply never attaches a second device.
seealso:
  - module: composable.infra.fabric_info
  - module: composable.infra.fabric_plan
  - module: composable.infra.scale
"""

EXAMPLES = r"""
- name: Give a machine two GPUs
  composable.infra.fabric_device:
    endpoint: https://fabric-manager.example.com
    tenant: 00000000-0000-4000-8000-000000000001
    credentials_dir: /etc/composable-infra/credentials
    machine: node-0
    model: A100 40G
    count: 2

- name: Move one and fill another machine, at the same time
  composable.infra.fabric_device:
    endpoint: https://fabric-manager.example.com
    tenant: 00000000-0000-4000-8000-000000000001
    credentials_dir: /etc/composable-infra/credentials
    attachments:
      - {machine: node-0, model: A100 40G, count: 4}
      - {machine: node-1, model: A100 40G, count: 4}
      - {machine: node-2, device: 8c9d0e1f-2a3b-4c5d-8e9f-0a1b2c3d4e5f, state: detached}
"""

RETURN = r"""
devices:
  description: Devices that were attached or detached; in check mode empty for an attach, since the manager chooses.
  returned: always, unless the options were refused
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
      size: null
count:
  description: How many devices of the model the machine has afterwards.
  returned: when O(attachments) is not given and O(state) is V(attached)
  type: int
  sample: 2
results:
  description:
    - What became of each attachment, in their order. C(count) is how many devices of the model the machine has
      afterwards, C(handles) are operations that the CDI Manager still works on, C(seconds) is how long it took.
    - C(msg) and C(error), the class of the failure, are there when C(failed) is true.
  returned: always, unless the options were refused
  type: list
  elements: dict
  sample:
    - machine: 5a2b4a1e-3c1f-5d4e-8f6a-0b1c2d3e4f50
      name: node-0
      model: A100 40G
      changed: true
      failed: false
      count: 2
      devices: []
      handles: [5f0c1a52]
      seconds: 0.2
    - machine: 114419c3-6a66-5f30-b83f-57fd5dd0979a
      name: node-1
      model: A100 40G
      changed: false
      failed: true
      msg: "model: 2 x A100 40G would be attached to machine node-1, its fabric has 1 free: insufficient"
      error: Refused
      count: 0
      devices: []
      handles: []
      seconds: 0.0
"""

import typing as t
from collections.abc import Mapping
from contextlib import closing

from ansible_collections.composable.infra.plugins.module_utils import door as doors
from ansible_collections.composable.infra.plugins.module_utils.fabric.wish import Wish, as_result
from ansible_collections.composable.infra.plugins.module_utils.fabric.wishes import Wishes

ONE: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["attached", "detached"], "default": "attached"},
    "model": {"type": "str"},
    "count": {"type": "int", "default": 1},
    "kind": {"type": "str", "default": "gpu"},
    "device": {"type": "str"},
    "handle": {"type": "str"},
}
SPEC: dict[str, t.Any] = {
    "argument_spec": {
        **doors.FABRIC_OPTIONS,
        "machine": {"type": "str"},
        **ONE,
        "attachments": {"type": "list", "elements": "dict",
                        "options": {"machine": {"type": "str", "required": True}, **ONE}},
        "wait": {"type": "bool", "default": True},
    },
    "required_one_of": [("machine", "attachments")],
    "mutually_exclusive": [("attachments", name) for name in ("machine", "model", "device", "handle")],
    "supports_check_mode": True,
}


def work(door: doors.Door) -> dict[str, t.Any]:
    """Attach and detach."""
    params = door.params
    bulk = params["attachments"] is not None
    wanted = ([_wish(item, f"attachments[{number}].") for number, item in enumerate(params["attachments"])]
              if bulk else [_wish(params)])
    with closing(doors.fabric(params)) as fabric:
        wishes = Wishes(fabric, params["attach_timeout"], params["wait"], door.say)
        granted = wishes.foresee(wanted) if door.check_mode else wishes.grant(wanted)
    result = as_result(granted)
    if not bulk and params["state"] == "attached":
        result["count"] = granted[0].after
    return result


def _wish(item: Mapping[str, t.Any], where: str = "") -> Wish:
    return Wish(machine=item["machine"], where=where, **{name: item[name] for name in ONE})


def main() -> None:
    """Module entry."""
    doors.main(SPEC, work)


if __name__ == "__main__":
    main()
