#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the inventory of a CDI Manager."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_info
short_description: Machines, devices, free devices and links of a composable fabric
version_added: 0.1.0
description:
  - Reads from a CDI Manager which machines it has, which devices are attached to them, and how many devices are free.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.fabric
options:
  gather:
    description:
      - Part to return. V(devices) is one flat list. It has the free devices too, when the CDI
        Manager lists them.
      - V(links) lists which device is attached to which machine over which fabric.
    type: list
    elements: str
    choices: [machines, devices, free, links]
    default: [machines, free]
  machine:
    description: Uid or name of one machine to return. By default all machines are returned.
    type: str
  models:
    description:
      - Models to count the free devices of, as the CDI Manager names them.
      - When empty, all models are counted if the CDI Manager lists free devices, and none if it can only count them.
    type: list
    elements: str
    default: []
  filters:
    description:
      - Which entries to return of each part. An entry is returned when, for every filter, it has one of the filter's
        values.
      - With a filter on devices (model, kind, state or health), machines without such a device are left out.
    type: dict
    suboptions:
      machine:
        description: Uids or names of machines.
        type: list
        elements: str
      fabric:
        description: Numbers of fabrics.
        type: list
        elements: int
      model:
        description: Models of devices.
        type: list
        elements: str
      kind:
        description: Kinds of devices, such as V(gpu) or V(memory).
        type: list
        elements: str
      state:
        description: States of devices.
        type: list
        elements: str
        choices: [free, attaching, attached, detaching, unavailable]
      health:
        description: Health of devices.
        type: list
        elements: str
        choices: [OK, Warning, Critical, Unknown]
  query:
    description:
      - A JMESPath expression that is applied to the result. Only what it finds is returned, as RV(result).
      - On a large fabric this saves most of the time that Ansible needs to process the result.
    type: str
attributes:
  check_mode:
    description: Can run in check mode, because the module only reads.
    support: full
  diff_mode:
    description: There is nothing to compare, the module only reads.
    support: none
  platform:
    description: Runs where Python and the network path to the CDI Manager are.
    platforms: posix
    support: full
requirements:
  - jmespath, for O(query)
seealso:
  - module: composable.infra.fabric_device
  - plugin: composable.infra.fabric
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Count free devices
  composable.infra.fabric_info:
    endpoint: https://fabric-manager.example.com
    tenant: 00000000-0000-4000-8000-000000000001
    credentials_dir: /etc/composable-infra/credentials
    ca_path: /etc/composable-infra/ca.pem
    models: [A100 40G]
  register: fabric

- name: Read machines and devices of a Redfish service
  composable.infra.fabric_info:
    manager: redfish
    endpoint: https://redfish.example.com
    username: composer
    password: "{{ redfish_password }}"
    gather: [machines, devices]
  register: fabric

- name: Which machines have an unhealthy device?
  composable.infra.fabric_info:
    endpoint: https://fabric-manager.example.com
    tenant: 00000000-0000-4000-8000-000000000001
    credentials_dir: /etc/composable-infra/credentials
    gather: [machines]
    filters:
      health: [Warning, Critical]
    query: machines[].name
  register: ill
"""

RETURN = r"""
machines:
  description:
    - Machines with their attached devices, sorted by name. C(power_state) is C(On), C(Off),
      C(PoweringOn), C(PoweringOff) or C(Paused), and null if the CDI Manager does not report it.
  returned: when O(gather) has V(machines) and O(query) is not given
  type: list
  elements: dict
  contains:
    uid:
      description: Uid of the machine.
      type: str
    name:
      description: Name of the machine.
      type: str
    fabric:
      description: Number of its fabric. Null without one.
      type: int
    power_state:
      description: >-
        V(On), V(Off), V(PoweringOn), V(PoweringOff) or V(Paused). Null if the CDI Manager does not
        report it.
      type: str
    devices:
      description: Attached devices.
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
          description: Identity on the node, for a GPU its UUID. Null if the CDI Manager does not
            report it.
          type: str
        name:
          description: Name of the device. Null where it has none.
          type: str
        size:
          description: Size of a memory device in MiB, else null.
          type: int
        box:
          description: The CDI Manager's id of the chassis that the device sits in. Null if it does
            not report a chassis.
          type: str
        shared:
          description: Whether the CDI Manager shows that another machine has the device too. Only Redfish services can.
          type: bool
  sample:
    - uid: 5a2b4a1e-3c1f-5d4e-8f6a-0b1c2d3e4f50
      name: node-0
      fabric: 1
      power_state: null
      devices:
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
          box: box-a
          shared: false
devices:
  description:
    - Devices, sorted by uid. C(box) is the CDI Manager's id of the chassis that a device sits in,
      and null if it does not report a chassis.
  returned: when O(gather) has V(devices) and O(query) is not given
  type: list
  elements: dict
  contains: *device
  sample:
    - uid: 8c9d0e1f-2a3b-4c5d-8e9f-0a1b2c3d4e5f
      model: A100 40G
      kind: gpu
      fabric: 1
      machine: null
      state: free
      health: OK
      serial: GPU-2f6c1d9e-7a3b-4f5e-9c8d-1a2b3c4d5e6f
      name: GPU-0
      size: null
      box: box-a
      shared: false
free:
  description: Free devices per model and fabric, for the requested models.
  returned: when O(gather) has V(free) and O(query) is not given
  type: list
  elements: dict
  contains:
    model:
      description: Model as the CDI Manager names it.
      type: str
    fabric:
      description: Number of the fabric.
      type: int
    free:
      description: Number of free devices.
      type: int
  sample:
    - model: A100 40G
      fabric: 1
      free: 3
links:
  description: Attached devices with their machine and fabric.
  returned: when O(gather) has V(links) and O(query) is not given
  type: list
  elements: dict
  contains:
    fabric:
      description: Number of the fabric.
      type: int
    machine:
      description: Uid of the machine.
      type: str
    name:
      description: Name of the machine.
      type: str
    device:
      description: Uid of the device.
      type: str
    model:
      description: Model as the CDI Manager names it.
      type: str
    state:
      description: State of the device.
      type: str
  sample:
    - fabric: 1
      machine: 5a2b4a1e-3c1f-5d4e-8f6a-0b1c2d3e4f50
      name: node-0
      device: 8c9d0e1f-2a3b-4c5d-8e9f-0a1b2c3d4e5f
      model: A100 40G
      state: attached
problems:
  description: Problems of reading, per model and fabric. All other results are complete.
  returned: success
  type: dict
  sample: {}
result:
  description: Result of O(query).
  returned: when O(query) is given
  type: raw
  sample: [node-0]
"""

from ansible_collections.composable.infra.plugins.module_utils.bodies.fabric_info import main

if __name__ == "__main__":
    main()
