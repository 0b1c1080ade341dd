#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the reason why each claim waits."""

from __future__ import annotations

DOCUMENTATION = r"""
module: claim_info
short_description: What each ResourceClaim waits for, in one sentence with evidence
version_added: 0.1.0
description:
  - Reads ResourceClaims, pods, ResourceSlices, ComposabilityRequests, ComposableResources and the CDI Manager.
  - Returns for each claim what it waits for.
  - A gated pod without its claim is listed as well. If the scheduler makes the claim for extended
    resources, its name is C(<pod>-extended-resources).
  - With C(provisioning_requests) in the configuration, a ProvisioningRequest that waits for its devices is
    listed as C(<request>-provisioning-request).
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
  wait:
    description:
      - Whether to wait until none of these claims waits for anything. With O(name) a claim that does not exist yet is
        waited for, too.
      - A controller, or a task of M(composable.infra.scale) elsewhere, serves the claims. This
        module only reads.
    type: bool
    default: false
  wait_timeout:
    description: Seconds to wait at most. The task fails when a claim still waits then, and names what it waits for.
    type: float
    default: 300.0
  ready_timeout:
    description: Seconds to wait for the API server and the CDI Manager to answer at the start.
    type: float
    default: 30.0
attributes:
  check_mode:
    description: Can run in check mode, because the module only reads.
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

- name: Go on when the claim has its devices
  composable.infra.claim_info:
    config_path: /etc/composable-infra/config.yml
    namespace: training
    name: train
    wait: true
    wait_timeout: 120

- name: Show the answer
  ansible.builtin.debug:
    msg: "{{ item.claim }} waits for {{ item.waits_for }}"
  loop: "{{ answer.claims }}"
"""

RETURN = r"""
claims:
  description:
    - One entry per claim, sorted by namespace and name.
    - A pod that requests an extended resource and has no claim yet has an entry as
      C(POD-extended-resources), even without a gate if the scheduler could not place it.
  returned: success, and when a claim was waited for in vain
  type: list
  elements: dict
  contains:
    claim:
      description: Namespace and name.
      type: str
      returned: always
      sample: training/train
    handover:
      description:
        - How the claim gets the devices that it waits for, V(gated), V(direct) or V(reschedule). A claim that keeps a
          device of the pool has V(direct) as long as it has the device.
        - Empty for a claim that has a device of its node or that no pod uses, and while the
          scheduler has not chosen a model.
      type: str
      returned: always
      sample: direct
    waits_for:
      description:
        - The condition that the claim waits for. Empty if the claim does not wait.
        - With the handover V(direct) this is first the CDI Manager, then C(Ready) by the node
          agent, then the scheduler, which checks for C(FabricDeviceReady) every 5 seconds.
      type: str
      returned: always
      sample: 1 x A100 40G on node node-0, 1 requested from the CDI Manager 1.2 s ago
    refused:
      description:
        - Why the fabric cannot serve the claim, whatever becomes free. No model satisfies a selector, or the claim
          requests more devices than a fabric has. RV(claims[].waits_for) names the same reason.
        - Empty for a claim that the fabric can serve, and until kube-scheduler has tried the claim's pod.
      type: str
      returned: always
      sample: "claim train, request gpu: no model of device_info satisfies it"
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
  description: Parts that could not be read.
  returned: success, and when a claim was waited for in vain
  type: list
  elements: str
  sample: []
"""

from ansible_collections.composable.infra.plugins.module_utils.bodies.claim_info import main

if __name__ == "__main__":
    main()
