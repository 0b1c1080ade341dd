#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the problems that would prevent a GPU stack from working."""

from __future__ import annotations

DOCUMENTATION = r"""
module: stack_preflight
short_description: What would prevent a GPU stack from working, and what to change
version_added: 0.1.0
description:
  - Reads the cluster as M(composable.infra.stack_info) does, and judges it together with what the roles will do, by
    rules and by the version matrix of the collection. It returns findings, and does not fail when something would not
    work.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.cluster
  - composable.infra.cluster.login
  - composable.infra.stack
options:
  plan:
    description: Plan of the roles, with the keys that C(preflight_plan) of the role C(preflight)
      has.
    type: dict
    required: true
seealso:
  - module: composable.infra.stack_info
"""

EXAMPLES = r"""
- name: Check the cluster against the plan
  composable.infra.stack_preflight:
    plan: "{{ preflight_plan }}"
  register: found

- name: Fail if the plan cannot work
  ansible.builtin.assert:
    that: found.stop | length == 0
    fail_msg: "{{ found.stop | join('\n') }}"
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
      sample: nodes
    level:
      description: V(stop) when it cannot work like this, V(warn) when it works with a price, V(ok) when it is well.
      type: str
      returned: always
      sample: stop
    found:
      description: The finding, in a sentence.
      type: str
      returned: always
      sample: "node node-0 has no machine on the fabric"
    change:
      description: The advised change. Empty for V(ok).
      type: str
      returned: always
      sample: Set spec.providerID of the node
report:
  description: The findings as a text for people.
  returned: success
  type: str
  sample: "preflight: 0 to fix, 0 to know, 12 well"
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
    },
    "supports_check_mode": True,
}


def main() -> None:
    """Define the options only. The action plugin of this name does the work."""
    AnsibleModule(**SPEC).fail_json(msg="stack_preflight works by its action plugin only")


if __name__ == "__main__":
    main()
