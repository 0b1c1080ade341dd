#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set the layout of a whole fabric."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_plan
short_description: Change a whole composable fabric to a requested layout
version_added: 0.1.0
description:
  - A layout maps every machine to its number of devices of each model. The module compares the
    requested layout with the inventory of the CDI Manager, and attaches and detaches the
    difference.
  - A machine that O(layout) names gets exactly the devices that are written there. Other machines are not changed
    unless O(unlisted=empty).
  - Everything is planned before anything is done. A layout that needs more devices than the fabric has is refused as a
    whole.
  - Connects to the CDI Manager only. It does not use Kubernetes, so it does not check whether a pod
    uses a device.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.fabric
options:
  layout:
    description:
      - "Maps uids or names of machines to mappings from models to numbers of devices, for example
        C({node-0: {A100 40G: 2}, node-1: {}})."
      - Both sides of the result's diff have this form. So you can save the present layout and restore it later.
    type: dict
    required: true
  kinds:
    description:
      - "Kinds of models that no machine has yet, for example C({CXL-512G: memory}). The kinds of
        other models are read from the machines. A model of an unknown kind counts as a GPU."
    type: dict
    default: {}
  unlisted:
    description: Whether machines that O(layout) does not name keep their devices, or all their devices are detached.
    type: str
    choices: [keep, empty]
    default: keep
  state:
    description:
      - V(applied) carries out the plan. V(planned) only returns it and reports no change.
      - Check mode returns the same plan and reports whether the plan would change something.
    type: str
    choices: [applied, planned]
    default: applied
  attach_seconds:
    description:
      - Seconds that the CDI Manager takes to attach a device. RV(predicted_seconds) is calculated from it.
      - The C(seconds) in each of RV(results) are the time that was measured.
    type: float
    default: 10.0
  detach_seconds:
    description: Seconds that the CDI Manager takes to detach a device. RV(predicted_seconds) is calculated from it.
    type: float
    default: 10.0
attributes:
  check_mode:
    description: Returns the plan that the real run carries out, and sends no change to the CDI Manager.
    support: full
  diff_mode:
    description: Returns the layout before and after.
    support: full
  platform:
    description: Runs where Python and the network path to the CDI Manager are.
    platforms: posix
    support: full
notes:
  - All detaches begin first, then all attaches, as many in parallel as the CDI Manager allows. When
    a step fails, the others are carried out all the same. The task then fails. Run it again to
    carry out the rest.
  - When a machine has more devices than requested, unhealthy ones are detached first.
seealso:
  - module: composable.infra.fabric_device
  - module: composable.infra.fabric_info
"""

EXAMPLES = r"""
- name: See what would change, and how long it would take
  composable.infra.fabric_plan:
    endpoint: https://fabric-manager.example.com
    tenant: 00000000-0000-4000-8000-000000000001
    credentials_dir: /etc/composable-infra/credentials
    layout: "{{ lookup('ansible.builtin.file', 'fabric.yml') | from_yaml }}"
    state: planned
  diff: true
  register: plan

- name: Lay out the fabric of a Redfish service
  composable.infra.fabric_plan:
    manager: redfish
    endpoint: https://redfish.example.com
    username: composer
    password: "{{ redfish_password }}"
    layout:
      node-0: {A100 40G: 2}
      node-1: {A100 40G: 2}

- name: Give node-0 four GPUs and take all from node-1
  composable.infra.fabric_plan:
    endpoint: https://fabric-manager.example.com
    tenant: 00000000-0000-4000-8000-000000000001
    credentials_dir: /etc/composable-infra/credentials
    layout:
      node-0: {A100 40G: 4}
      node-1: {}
"""

RETURN = r"""
plan:
  description: The steps, in order. Empty when the fabric already has the requested layout.
  returned: success, and when the plan was refused or failed
  type: list
  elements: dict
  contains:
    action:
      description: V(attach) or V(detach).
      type: str
    machine:
      description: Uid of the machine.
      type: str
    name:
      description: Name of the machine.
      type: str
    model:
      description: Model as the CDI Manager names it.
      type: str
    count:
      description: Number of devices.
      type: int
    device:
      description: Uid of the device that is detached. Null for an attach.
      type: str
    reason:
      description: Why the step is needed.
      type: str
  sample:
    - action: detach
      machine: 5a2b4a1e-3c1f-5d4e-8f6a-0b1c2d3e4f50
      name: node-1
      model: A100 40G
      count: 1
      device: 8c9d0e1f-2a3b-4c5d-8e9f-0a1b2c3d4e5f
      reason: node-1 has 1 x A100 40G, 0 wanted
predicted_seconds:
  description: Predicted time of all steps, in seconds.
  returned: success, and when the plan was refused or failed
  type: float
  sample: 20.0
seconds:
  description: Measured time of all steps, in seconds.
  returned: when something was carried out
  type: float
  sample: 18.7
shortages:
  description: Which devices are missing for the layout, one sentence for each model and fabric.
  returned: success, and when the plan was refused or failed
  type: list
  elements: str
  sample: []
problems:
  description: Reasons why free devices could not be counted, by model and fabric. RV(shortages) leaves these devices
    out.
  returned: success, and when the plan was refused or failed
  type: dict
  sample: {}
results:
  description: The result of each step of the plan.
  returned: when something was carried out
  type: list
  elements: dict
  contains:
    action:
      description: V(attach) or V(detach).
      type: str
    machine:
      description: Uid of the machine.
      type: str
    name:
      description: Name of the machine.
      type: str
    model:
      description: Model as the CDI Manager names it.
      type: str
    failed:
      description: Whether the step failed.
      type: bool
    msg:
      description: Error message.
      type: str
      returned: when C(failed) is true
    error:
      description: Class of the error.
      type: str
      returned: when C(failed) is true
    seconds:
      description: Time that the step took.
      type: float
  sample:
    - action: attach
      machine: 5a2b4a1e-3c1f-5d4e-8f6a-0b1c2d3e4f50
      name: node-0
      model: A100 40G
      failed: false
      seconds: 9.4
"""

from ansible_collections.composable.infra.plugins.module_utils.bodies.fabric_plan import main

if __name__ == "__main__":
    main()
