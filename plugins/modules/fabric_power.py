#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switch machines on or off, or restart them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_power
short_description: Switch a machine of a composable fabric on or off, or restart it
version_added: 0.1.0
description:
  - Some machines take devices of a fabric only while they are off, or use them only after a restart. This module brings
    a machine into the wanted power state, and waits until the machine shows it.
  - Uses the action ComputerSystem.Reset of Redfish, so the CDI Manager must be a Redfish service or
    a Sunfish with agents. If the CDI Manager does not switch a machine, set O(endpoint) to the
    machine's own management controller (BMC) with O(manager=redfish).
  - Does not use Kubernetes. Drain the node first.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.fabric
options:
  machine:
    description: Uid or name of the machine.
    type: str
    required: true
  state:
    description:
      - V(powered-on) and V(powered-off) do nothing when the machine is so already.
      - V(restarted) always restarts. A machine that is off is switched on. If the machine offers no
        fitting restart, it is switched off and on.
    type: str
    choices: [powered-on, powered-off, restarted]
    required: true
  force:
    description:
      - Whether to switch without the machine's operating system. Its unwritten data is lost.
      - Without it the resets C(GracefulShutdown) and C(GracefulRestart) are used, with it C(ForceOff), C(PowerCycle)
        and C(ForceRestart).
    type: bool
    default: false
  wait:
    description:
      - Whether to wait until the machine shows the wanted power state. It does not show whether the
        operating system has booted.
      - A restart in two steps waits for the first one in any case.
    type: bool
    default: true
  wait_timeout:
    description: Seconds to wait at most.
    type: float
    default: 300.0
attributes:
  check_mode:
    description:
      - Reads the power state and predicts the change. Like the real run it fails for a reset that is not offered.
    support: full
  diff_mode:
    description: Returns the power state before and after.
    support: full
  platform:
    description: Runs where Python and the network path to the CDI Manager are.
    platforms: posix
    support: full
notes:
  - If the machine shows the time of its last reset (LastResetTime), a restart has ended when that
    time has changed. Otherwise it has ended when it was accepted and the machine shows C(On).
  - When the reply to a reset is lost, the module reads the power state and does not repeat the
    request.
seealso:
  - module: composable.infra.fabric_device
  - module: composable.infra.fabric_info
"""

EXAMPLES = r"""
- name: Switch a machine off that takes devices only while it is off
  composable.infra.fabric_power:
    manager: redfish
    endpoint: https://composer.example.com
    credentials_dir: /etc/composable-infra/credentials
    machine: node-0
    state: powered-off

- name: Attach its devices
  composable.infra.fabric_device:
    manager: redfish
    endpoint: https://composer.example.com
    credentials_dir: /etc/composable-infra/credentials
    machine: node-0
    model: A100 40G
    count: 2

- name: Switch it on
  composable.infra.fabric_power:
    manager: redfish
    endpoint: https://composer.example.com
    credentials_dir: /etc/composable-infra/credentials
    machine: node-0
    state: powered-on
"""

RETURN = r"""
machine:
  description: Uid of the machine.
  returned: success
  type: str
  sample: 5a2b4a1e-3c1f-5d4e-8f6a-0b1c2d3e4f50
name:
  description: Name of the machine.
  returned: success
  type: str
  sample: node-0
power_state:
  description: Power state after the task, in Redfish's words.
  returned: success
  type: str
  sample: "Off"
resets:
  description: The resets that were requested, or would be, in order.
  returned: success
  type: list
  elements: str
  sample: [GracefulShutdown]
reset_types:
  description: The resets that the machine offers.
  returned: success
  type: list
  elements: str
  sample: ["On", ForceOff, GracefulShutdown, GracefulRestart, ForceRestart]
"""

from ansible_collections.composable.infra.plugins.module_utils.bodies.fabric_power import main

if __name__ == "__main__":
    main()
