#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each claim waits for."""

from __future__ import annotations

DOCUMENTATION = r"""
module: claim_info
short_description: What each ResourceClaim waits for, in one sentence with evidence
version_added: 1.0.0
description:
  - Reads ResourceClaims, pods, ResourceSlices, ComposabilityRequests, ComposableResources and the CDI Manager.
  - Returns for each claim what it waits for.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.config
  - composable.infra.cluster
  - composable.infra.cluster.login
options:
  namespace:
    description: Return claims of this namespace only.
    type: str
  name:
    description: Return the claim of this name only.
    type: str
  waiting:
    description: Return only claims that wait for something.
    type: bool
    default: false
  ready_timeout:
    description: Seconds to wait for the API server and the CDI Manager to answer at the start.
    type: float
    default: 30.0
attributes:
  check_mode:
    description: Can run in check mode; the module only reads.
    support: full
  diff_mode:
    description: There is nothing to compare, the module only reads.
    support: none
  platform:
    description: Runs where Python and the network paths to API server and CDI Manager are.
    platforms: posix
    support: full
"""

EXAMPLES = r"""
- name: Why does my pod not start?
  composable.infra.claim_info:
    config_path: /etc/composable-infra/config.yml
    namespace: training
    waiting: true
  register: answer

- name: Show the answer
  ansible.builtin.debug:
    msg: "{{ item.claim }} waits for {{ item.waits_for }}"
  loop: "{{ answer.claims }}"
"""

RETURN = r"""
claims:
  description: One entry per claim, sorted by namespace and name.
  returned: success
  type: list
  elements: dict
  contains:
    claim:
      description: Namespace and name.
      type: str
      returned: always
      sample: training/train
    waits_for:
      description: What the claim waits for. Empty when it waits for nothing.
      type: str
      returned: always
      sample: 1 x A100 40G on node node-0, 1 asked of the CDI Manager 1.2 s ago
    since:
      description: Since when the claim waits, in seconds since the epoch. V(0) when it waits for nothing.
      type: float
      returned: always
      sample: 1767323045.0
    evidence:
      description:
        - The facts from which the sentence was made.
        - C(node_steps) has an entry for each device of the claim that its node has worked on, with the moment of each
          step, C(OnBus) (shown by the bus), C(Bound) (driver bound), C(Touched) (first touched), C(PluginRestarted)
          (the vendor's DRA plugin was restarted) and C(Announced) (in the ResourceSlice of the node), and with
          C(trouble) when the node has any.
      type: dict
      returned: always
      sample: {node: node-0, need: {A100 40G: 1}}
problems:
  description: What could not be read.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.composable.infra.plugins.module_utils import engine_module
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot import run as session


def work(module: AnsibleModule) -> dict[str, object]:
    """Read cluster and fabric once, and say what each claim waits for; nothing is written.

    Returns ``claims``, sorted by namespace and name, and ``problems``. Raises BadConfig, NotReady or ApiError.
    """
    params = module.params
    run = session.Run(engine_module.cluster(params), engine_module.config(module), params["ready_timeout"])
    wait_reasons, problems = run.explain()
    found = [v for v in wait_reasons if _asked_for(v.claim, params) and (v.waits_for or not params["waiting"])]
    return {"claims": [session.wait_reason_result(v) for v in found], "problems": problems}


def _asked_for(claim: str, params: dict[str, object]) -> bool:
    namespace, _sep, name = claim.partition("/")
    return params["namespace"] in (None, namespace) and params["name"] in (None, name)


def main() -> None:
    """Entry of the module."""
    engine_module.main(
        work,
        namespace={"type": "str"},
        name={"type": "str"},
        waiting={"type": "bool", "default": False},
    )


if __name__ == "__main__":
    main()
