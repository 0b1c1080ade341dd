#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attach and detach devices by hand."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_device
short_description: Attach devices of a composable fabric to machines, or detach them
version_added: 0.1.0
description:
  - Makes sure that a machine has a number of devices of a model attached, or that a device, or all devices of a model,
    are detached from it.
  - With O(attachments) it does so for any number of machines at the same time, with one result for each.
  - Connects to the CDI Manager only. It does not use Kubernetes, so it does not check whether a pod
    uses the device. For devices of a cluster use M(composable.infra.scale).
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
      - V(attached) attaches until the machine has O(count) devices of O(model). With O(exact) it detaches those that
        are too many.
      - V(detached) detaches O(device), or all devices of O(model).
    type: str
    choices: [attached, detached]
    default: attached
  model:
    description: Model of the device as the CDI Manager names it. Needed to attach.
    type: str
  count:
    description:
      - Number of devices of O(model) that the machine has after the task. The default is 1. It may be 0 with O(exact).
      - A machine that has more keeps them, unless O(exact) is given.
    type: int
  exact:
    description:
      - Whether the machine has no more than O(count) devices of O(model) after the task.
      - Devices in bad health are detached first, then by their uid. Whether something uses them is not checked.
    type: bool
    default: false
  kind:
    description: Kind of the device, such as V(gpu) or V(memory).
    type: str
    default: gpu
  device:
    description: Uid of the device at the CDI Manager. To detach, either this or O(model) is needed.
    type: str
  handle:
    description: Handle of an operation that an earlier task began with O(wait=false). The task waits for its end.
    type: str
  attachments:
    description:
      - Requested attachments. They are carried out at the same time, detaches first.
      - When one of them fails, the others are carried out all the same. The task then fails, and RV(results) has the
        result of each.
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
      exact:
        description: As O(exact).
        type: bool
        default: false
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
      - With V(false), and a CDI Manager that works asynchronously, the task ends as soon as the manager has accepted
        the requests. The C(handles) in each of RV(results) then name the operations.
      - A CDI Manager that answers only when it is done is always waited for. Use C(async) with such a manager.
    type: bool
    default: true
attributes:
  check_mode:
    description:
      - Can run in check mode. It predicts the change and sends no change to the CDI Manager. Like the real run it fails
        when there are not enough free devices.
    support: full
  diff_mode:
    description: Returns the number of devices per machine and model before and after.
    support: full
  platform:
    description: Runs where Python and the network path to the CDI Manager are.
    platforms: posix
    support: full
notes:
  - An attach takes as long as the CDI Manager needs. With C(-v) and a local connection the task prints how many
    attachments are done whenever one is done. Ansible shows nothing of any other task before it ends. Use C(async) and
    C(poll) there, or O(wait=false) and a later task with O(handle).
  - When the reply to an attach is lost, the module first searches for the device on the machine and
    does not repeat the request. So a lost reply never attaches a second device.
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

- name: Give a machine two GPUs by a Redfish service
  composable.infra.fabric_device:
    manager: redfish
    endpoint: https://redfish.example.com
    username: composer
    password: "{{ redfish_password }}"
    machine: node-0
    model: A100 40G
    count: 2

- name: Let a machine have two GPUs of a model, no more and no fewer
  composable.infra.fabric_device:
    endpoint: https://fabric-manager.example.com
    tenant: 00000000-0000-4000-8000-000000000001
    credentials_dir: /etc/composable-infra/credentials
    machine: node-0
    model: A100 40G
    count: 2
    exact: true

- name: Detach every GPU of a model
  composable.infra.fabric_device:
    endpoint: https://fabric-manager.example.com
    tenant: 00000000-0000-4000-8000-000000000001
    credentials_dir: /etc/composable-infra/credentials
    machine: node-0
    model: A100 40G
    state: detached

- name: Detach a device of one machine and fill two others, at the same time
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
  description:
    - Devices that were attached or detached. The C(state) of a detached one is V(free). In check mode it is still
      V(attached).
    - Empty for an attach in check mode, because the CDI Manager chooses the device.
  returned: always, unless the options were refused
  type: list
  elements: dict
  contains: &device
    uid:
      description: Uid of the device at the CDI Manager.
      type: str
    model:
      description: Model as the CDI Manager names it.
      type: str
    kind:
      description: Kind of the device, such as V(gpu) or V(memory).
      type: str
    fabric:
      description: Number of the fabric.
      type: int
    machine:
      description: Uid of the machine that has the device. Null for a free device.
      type: str
    state:
      description: V(free), V(attaching), V(attached), V(detaching) or V(unavailable).
      type: str
    health:
      description: V(OK), V(Warning), V(Critical) or V(Unknown).
      type: str
    serial:
      description: Identity on the node, for a GPU its UUID. Null if the CDI Manager does not report
        it.
      type: str
    name:
      description: Name of the device. Null where it has none.
      type: str
    size:
      description: Size of a memory device in MiB, else null.
      type: int
    box:
      description: The CDI Manager's id of the chassis that the device sits in. Null if it does not
        report a chassis.
      type: str
    shared:
      description: Whether the CDI Manager shows that another machine has the device too. Only Redfish services can.
      type: bool
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
      box: null
      shared: false
count:
  description: Number of devices of the model that the machine has after the task.
  returned: when O(attachments) is not given and O(model) is
  type: int
  sample: 2
results:
  description:
    - The result of each attachment, in the order of O(attachments). C(count) is the number of devices of the model that
      the machine has after the task. C(handles) are operations that the CDI Manager still works on. C(seconds) is the
      time that the attachment took.
    - When C(failed) is true, C(msg) is the error message and C(error) the class of the error.
  returned: always, unless the options were refused
  type: list
  elements: dict
  contains:
    machine:
      description: Uid of the machine.
      type: str
    name:
      description: Name of the machine.
      type: str
    model:
      description: Model as the CDI Manager names it.
      type: str
    changed:
      description: Whether something was attached or detached.
      type: bool
    failed:
      description: Whether the attachment failed.
      type: bool
    msg:
      description: Error message.
      type: str
      returned: when C(failed) is true
    error:
      description: Class of the error.
      type: str
      returned: when C(failed) is true
    count:
      description: Number of devices of the model that the machine has after the task.
      type: int
    devices:
      description: Devices that were attached or detached.
      type: list
      elements: dict
      contains: *device
    handles:
      description: Operations that the CDI Manager still works on.
      type: list
      elements: str
    seconds:
      description: Time that the attachment took.
      type: float
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

from ansible_collections.composable.infra.plugins.module_utils.bodies.fabric_device import main

if __name__ == "__main__":
    main()
