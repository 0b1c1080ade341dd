#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test what a CDI Manager supports."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_conformance
short_description: Examine what a CDI Manager supports
version_added: 0.1.0
description:
  - Runs a list of checks on a CDI Manager and reports the results. The rest of this collection relies on what they
    check. The collection's own tests run the same checks on its emulated managers.
  - Without O(machine) and O(model) the module only reads. With both it attaches devices of that
    model to that machine, one or a few at a time, and detaches all of them again. Use a machine and
    devices that are not in use.
  - A check that fails does not fail the task. RV(failed_checks) names it.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.fabric
options:
  machine:
    description: Uid of a machine that devices may be attached to. Nothing else may attach to it during the task.
    type: str
  model:
    description: Model of the devices that may be attached, as the CDI Manager names it.
    type: str
  at_most:
    description: How many devices may be attached at once.
    type: int
    default: 2
  memory_model:
    description: Model of a memory device that may be attached too.
    type: str
  scarce_model:
    description: Model of which all free devices may be attached, to check how the CDI Manager refuses one more.
    type: str
  sick_model:
    description: Model with only unhealthy free devices, to check that none of them stays attached.
    type: str
  foreign_machine:
    description: Uid of a machine of another tenant, to check that it cannot be reached.
    type: str
  names:
    description: Names of machines that must be shown unchanged, for example names in other scripts.
    type: list
    elements: str
    default: []
  devices:
    description: Smallest number of devices, including free ones, that must be listed, to check that no page is missing.
    type: int
    default: 0
  patience:
    description: Seconds for which a request is repeated while the CDI Manager cannot be reached or is busy.
    type: float
    default: 60.0
attributes:
  check_mode:
    description: Can run in check mode. It only reads then.
    support: full
  diff_mode:
    description: There is nothing to compare, because the module detaches everything that it
      attached.
    support: none
  platform:
    description: Runs where Python and the network path to the CDI Manager are.
    platforms: posix
    support: full
notes:
  - When an attach gets no reply, the module waits O(attach_timeout) seconds before it requests the attach again. Set it
    to the longest time that the fabric needs, so that a lost reply takes no longer than that.
seealso:
  - module: composable.infra.fabric_info
"""

EXAMPLES = r"""
- name: See what a CDI Manager supports, reading only
  composable.infra.fabric_conformance:
    endpoint: https://fabric-manager.example.com
    tenant: 00000000-0000-4000-8000-000000000001
    credentials_dir: /etc/composable-infra/credentials
    ca_path: /etc/composable-infra/ca.pem
  register: conformance

- name: Attach and detach too, on a machine that is set aside for it
  composable.infra.fabric_conformance:
    manager: redfish
    endpoint: https://composer.example.com
    username: composer
    password: "{{ composer_password }}"
    machine: 5a2b4a1e-3c1f-5d4e-8f6a-0b1c2d3e4f50
    model: A100 40G
  register: conformance
"""

RETURN = r"""
results:
  description: All checks with their outcomes.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the check.
      type: str
    title:
      description: Title of the check.
      type: str
    means:
      description: Requirement of the check.
      type: str
    changes:
      description: Whether the check attaches or detaches a device.
      type: bool
    outcome:
      description: V(passed), V(failed), V(unsupported) or V(skipped).
      type: str
    words:
      description: How the CDI Manager does it, or why the check did not pass.
      type: str
    seconds:
      description: How long the check took.
      type: float
  sample:
    - name: a_device_is_attached_and_detached
      title: a device is attached and detached
      means: Attached it is on the machine and not free; detached it is free again.
      changes: true
      outcome: passed
      words: ""
      seconds: 4.21
failed_checks:
  description: Titles of the checks that failed.
  returned: success
  type: list
  elements: str
  sample: []
summary:
  description: How many checks had which outcome.
  returned: success
  type: str
  sample: 24 passed, 0 failed, 1 unsupported, 1 skipped
markdown:
  description: The report as Markdown.
  returned: success
  type: str
  sample: "# Conformance of fm at https://fabric-manager.example.com"
junit:
  description: The report as JUnit XML.
  returned: success
  type: str
  sample: <?xml version="1.0" encoding="utf-8"?>
"""

from ansible_collections.composable.infra.plugins.module_utils.bodies.fabric_conformance import main

if __name__ == "__main__":
    main()
