#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Propose which idle devices to detach for a large request, and carry out the proposal."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_defragment
short_description: Propose idle devices to return so that a large claim fits on one node, and return them
version_added: 0.1.0
description:
  - A claim's devices are all on one node. If there are too few free devices, idle devices that stay
    attached to other nodes (by the hold time C(device_no_removal_duration)) may fill the gap. Idle
    devices of a model that cannot be on the node together with the requested model may block the
    claim. The module names the devices that must be returned.
  - In check mode the module returns the proposal with its C(id). Outside check mode it needs O(proposal), and
    carries out this proposal only if it has not changed. Otherwise it fails and names the current proposal.
  - The module makes a proposal only if the planners of the cluster would then place the claim.
  - The module writes two annotations. On the ComposabilityRequests, it writes a time. Devices that were idle before
    that time need not stay. On the ComposableResources, it writes CoHDI's C(delete-device). The controllers then
    return the devices. A device that a claim takes meanwhile stays.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.config
  - composable.infra.cluster
  - composable.infra.cluster.login
options:
  claim:
    description: Namespace and name of a ResourceClaim that waits, such as V(training/large).
    type: str
  model:
    description: Instead of a waiting claim, the model of a future claim, as the CDI Manager names
      it.
    type: str
  count:
    description: Number of devices of O(model) that the future claim requests.
    type: int
    default: 1
  node_labels:
    description: Labels of the nodes on which its pod may run. With O(claim) they are those of its pod's node selector.
    type: dict
  proposal:
    description: The C(id) of the proposal that is to be carried out. Required outside check mode.
    type: str
  wait:
    description: Whether to wait until the devices have left their nodes.
    type: bool
    default: true
  wait_timeout:
    description: Seconds to wait.
    type: float
    default: 300.0
attributes:
  check_mode:
    description: Returns the proposal, and writes nothing.
    support: full
  diff_mode:
    description: Returns the idle devices that leave, by model and node, before and after.
    support: full
  platform:
    description: Runs where Python and the network paths to API server and CDI Manager are.
    platforms: posix
    support: full
seealso:
  - module: composable.infra.claim_info
  - module: composable.infra.fabric_whatif
    description: Its option C(make_room) does the same for a captured cluster.
"""

EXAMPLES = r"""
- name: What has to move so that this claim gets its eight GPUs?
  composable.infra.fabric_defragment:
    config_path: /etc/composable-infra/config.yml
    claim: training/large
  check_mode: true
  register: proposed

- name: Move it
  composable.infra.fabric_defragment:
    config_path: /etc/composable-infra/config.yml
    claim: training/large
    proposal: "{{ proposed.proposal.id }}"
  when: proposed.proposal.moves | length > 0

- name: Would a claim for four GPUs fit on a node of this team?
  composable.infra.fabric_defragment:
    config_path: /etc/composable-infra/config.yml
    model: A100 40G
    count: 4
    node_labels:
      team: vision
  check_mode: true
"""

RETURN = r"""
proposal:
  description:
    - The moves. C(fits) tells whether the claim can be placed after them. C(moves) is empty if the
      claim fits already, or if no move helps. C(why) gives the reason in a sentence.
    - C(id) is the same only for the same target and the same devices. It is empty without moves.
  returned: success
  type: dict
  contains:
    id:
      description: Id of the proposal. Empty without moves.
      type: str
    fits:
      description: Whether the devices fit on C(target) after the moves.
      type: bool
    target:
      description: Node that gets the devices. Empty where no node can.
      type: str
    moves:
      description: Devices that leave their nodes.
      type: list
      elements: dict
      contains:
        node:
          description: Node that the devices leave.
          type: str
        model:
          description: Model as the CDI Manager names it.
          type: str
        devices:
          description: Names of the ComposableResources.
          type: list
          elements: str
        request:
          description: ComposabilityRequest of the node and the model.
          type: str
        reason:
          description: Why they are moved.
          type: str
    why:
      description: The proposal in a sentence.
      type: str
    ask:
      description: Purpose of the proposal.
      type: dict
      contains:
        model:
          description: Model as the CDI Manager names it.
          type: str
        count:
          description: Number of devices on one node.
          type: int
        claim:
          description: Namespace and name of the claim. Empty without one.
          type: str
        node_labels:
          description: Labels of the nodes on which its pod may run.
          type: dict
  sample:
    id: 3f2a9c0b7d1e
    fits: true
    target: node-0
    moves:
      - node: node-1
        model: A100 40G
        devices: [gpu-3c1f5d4e-8f6a-4b1c-9d3e-4f505a2b4a1e]
        request: composability-1f0c6a9b2d
        reason: node node-0 lacks 1 x A100 40G
    why: >-
      1 of 4 x A100 40G for node node-0 are idle on other nodes. After the move: node node-0 has room and 4 x A100 40G
      (4 to be attached)
    ask:
      model: A100 40G
      count: 4
      claim: training/large
      node_labels: {}
says:
  description: The proposal in one sentence.
  returned: success
  type: str
  sample: move 1 x A100 40G from node node-1, then 4 x A100 40G on one node for claim training/large fits on node node-0
"""

from ansible_collections.composable.infra.plugins.module_utils.bodies.fabric_defragment import main

if __name__ == "__main__":
    main()
