#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the conditions that a GPU stack must satisfy."""

from __future__ import annotations

DOCUMENTATION = r"""
module: stack_verify
short_description: What must be true of a GPU stack after its roles have run
version_added: 0.1.0
description:
  - Reads the cluster as M(composable.infra.stack_info) does, and judges whether what was to be installed is there and
    works. It returns findings, and does not fail when something is wrong.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.cluster
  - composable.infra.cluster.login
  - composable.infra.stack
options:
  plan:
    description: Expected installation, with the keys that C(verify_plan) of the role C(verify) has.
    type: dict
    required: true
  wait:
    description: Whether to check again until there is no problem.
    type: bool
    default: false
  wait_timeout:
    description: Seconds to wait at most. Then the last findings are returned.
    type: float
    default: 300.0
  wait_sleep:
    description: Seconds between two checks.
    type: float
    default: 5.0
seealso:
  - module: composable.infra.stack_info
"""

EXAMPLES = r"""
- name: Check the cluster until all is well
  composable.infra.stack_verify:
    plan: "{{ verify_plan }}"
    wait: true
    wait_timeout: 600
  register: found

- name: Show the report
  ansible.builtin.debug:
    msg: "{{ found.report.splitlines() }}"
"""

RETURN = r"""
findings:
  description: The findings, blocking findings first.
  returned: success
  type: list
  elements: dict
  contains:
    check:
      description: The subject of the check.
      type: str
      returned: always
      sample: device classes
    level:
      description: V(stop) when it cannot work like this, V(warn) when it works with a price, V(ok) when it is well.
      type: str
      returned: always
      sample: stop
    found:
      description: The finding, in a sentence.
      type: str
      returned: always
      sample: "there is no DeviceClass gpu.nvidia.com"
    change:
      description: The advised change. Empty for V(ok).
      type: str
      returned: always
      sample: Run the role nvidia_dra_driver
report:
  description: The findings as a text for people.
  returned: success
  type: str
  sample: "verify: 0 to fix, 0 to know, 12 well"
stop:
  description: One sentence for each finding of the level V(stop).
  returned: success
  type: list
  elements: str
  sample: []
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.composable.infra.plugins.module_utils import cluster_module

SPEC: dict[str, t.Any] = {
    "argument_spec": {
        **cluster_module.CLUSTER_OPTIONS,
        "plan": {"type": "dict", "required": True},
        "hosts": {"type": "list", "elements": "dict", "default": []},
        "wait": {"type": "bool", "default": False},
        "wait_timeout": {"type": "float", "default": 300.0},
        "wait_sleep": {"type": "float", "default": 5.0},
    },
    "supports_check_mode": True,
}


def main() -> None:
    """Define the options only. The action plugin of this name does the work."""
    AnsibleModule(**SPEC).fail_json(msg="stack_verify works by its action plugin only")


if __name__ == "__main__":
    main()
