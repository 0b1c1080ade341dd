#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serve all waiting claims once."""

from __future__ import annotations

DOCUMENTATION = r"""
module: scale
short_description: Serve all waiting ResourceClaims from the composable fabric
version_added: 0.1.0
description:
  - Publishes the free devices of the fabric as pools, attaches devices for every ResourceClaim that
    waits for a device, notifies the scheduler, makes sure that pods get to the node of their
    device, and returns idle devices to the fabric.
  - Runs until no operation is in flight and no claim waits that can be served, or until O(timeout).
  - Runs the same code as the controller. While a controller or another run holds the Leases, this module changes
    nothing. It waits and reports.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.config
  - composable.infra.cluster
  - composable.infra.cluster.login
options:
  timeout:
    description: Seconds after which the run ends at the latest.
    type: float
    default: 600.0
  ready_timeout:
    description: Seconds to wait for the API server and the CDI Manager to answer at the start.
    type: float
    default: 30.0
attributes:
  check_mode:
    description: Returns the plan that the real run carries out, and writes nothing.
    support: full
  diff_mode:
    description: Returns sizes, pools, labels and conditions before and after.
    support: full
  platform:
    description: Runs where Python and the network paths to API server and CDI Manager are.
    platforms: posix
    support: full
seealso:
  - module: composable.infra.claim_info
"""

EXAMPLES = r"""
- name: See what would be done
  composable.infra.scale:
    config_path: /etc/composable-infra/config.yml
  check_mode: true
  diff: true
  register: plan

- name: Serve all waiting claims
  composable.infra.scale:
    config_path: /etc/composable-infra/config.yml
    timeout: 300
"""

RETURN = r"""
actions:
  description: The actions of the plan, in order, each with its reason.
  returned: success
  type: list
  elements: dict
  contains:
    action:
      description: Name of the action. Each action has fields of its own beside those that are named here.
      type: str
    node:
      description: Node. Empty or absent where the action is about no node.
      type: str
    reason:
      description: Why the action is needed.
      type: str
    model:
      description: Model as the CDI Manager names it.
      type: str
      returned: for actions about devices
    size:
      description: Requested number of devices.
      type: int
      returned: for SetSize
    before:
      description: Number that was requested before. Null if there was no request.
      type: int
      returned: for SetSize
    request:
      description: Name of the ComposabilityRequest.
      type: str
      returned: for actions about a request
  sample:
    - action: SetSize
      node: node-0
      model: A100 40G
      before: null
      size: 1
      request: composability-1f0c6a9b2d
      reason: 1 x A100 40G wanted on node node-0
verdicts:
  description: The conditions that claims wait for when the module ends, each in one sentence with
    its evidence.
  returned: success
  type: list
  elements: dict
  contains:
    claim:
      description: Namespace and name.
      type: str
    handover:
      description: How the claim gets its devices, V(gated), V(direct) or V(reschedule).
      type: str
    waits_for:
      description: The condition that the claim waits for.
      type: str
    refused:
      description: Why the fabric cannot serve the claim, whatever becomes free. Empty when it can.
      type: str
    since:
      description: Since when the claim waits, in seconds since the epoch.
      type: float
    evidence:
      description: The facts from which the sentence was made.
      type: dict
  sample:
    - claim: default/train
      handover: reschedule
      waits_for: 1 x A100 40G on node node-0, 1 requested from the CDI Manager 1.2 s ago
      refused: ""
      since: 1767323045.0
      evidence:
        node: node-0
history:
  description: Finished actions, in order, with the time in seconds since the epoch.
  returned: when not in check mode
  type: list
  elements: dict
  contains:
    time:
      description: Moment in seconds since the epoch.
      type: float
    reason:
      description: The event, in one word.
      type: str
    about:
      description: Name of the object that it happened to.
      type: str
    message:
      description: The event, in a sentence.
      type: str
    type:
      description: V(Normal) or V(Warning).
      type: str
    claims:
      description: The claims that it concerns, as namespace and name.
      type: list
      elements: str
    node:
      description: Node of the device.
      type: str
      returned: for entries about a device
    model:
      description: Model of the device as the CDI Manager names it.
      type: str
      returned: for entries about a device
  sample:
    - time: 1767323045.123
      reason: Attached
      about: gpu-3c1f5d4e-8f6a-4b1c-9d3e-4f505a2b4a1e
      message: device GPU-2f6c1d9e (A100 40G) attached to node node-0
      type: Normal
      claims: [default/train]
      node: node-0
      model: A100 40G
summary:
  description: The run in short sentences, with the devices that moved, the claims that wait, and who led.
  returned: success
  type: str
  sample: "Attached: A100 40G to node-0 for default/train. No claim waits. Led by this run."
settled:
  description: Whether no operation was in flight at the end.
  returned: success
  type: bool
  sample: true
led_by:
  description:
    - Holder of the Leases that did the work instead of this run. Empty when this run did it.
    - In check mode, the current holder of the Leases that does the work.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible_collections.composable.infra.plugins.module_utils.bodies.scale import main

if __name__ == "__main__":
    main()
