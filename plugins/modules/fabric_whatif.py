#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the planners would do if something were other than it was captured."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_whatif
short_description: What would happen if the fabric, the nodes, the pods or the settings were different
version_added: 1.0.0
description:
  - Takes a file of M(composable.infra.fabric_capture) and asks the planners that run the cluster what they would do
    first, as it was captured (C(before)) and with some changes (C(after)).
  - It needs neither cluster nor fabric, and reads nothing but the file.
  - It answers for the moment of the capture. Nothing is carried out in simulated time, so it says nothing about
    durations.
author:
  - composable.infra contributors (@composable-infra)
options:
  capture:
    description: File of M(composable.infra.fabric_capture).
    type: path
    required: true
  changes:
    description: What is to be different. Changes are made one after the other.
    type: list
    elements: dict
    default: []
    suboptions:
      change:
        description:
          - V(add_devices) adds free devices to a fabric. It takes O(changes[].model), O(changes[].fabric) and
            O(changes[].count).
          - V(lose_devices) takes free devices away (the same fields), or attached ones (O(changes[].devices)) with the
            pods that use them, which come back and wait.
          - V(drain_node) cordons O(changes[].node), evicts its pods and returns its devices to the fabric, as the
            playbook C(composable.infra.drain_and_detach) does.
          - V(lose_node) is the state after O(changes[].node) has been gone for C(gone_node_duration). Its pods come
            back and wait, and its devices are free.
          - V(add_pods) adds O(changes[].count) pods, like the pod O(changes[].like), or with a claim for
            O(changes[].devices_each) devices of O(changes[].model).
          - V(settings) sets other values of O(changes[].settings).
        type: str
        required: true
        choices: [add_devices, lose_devices, drain_node, lose_node, add_pods, settings]
      model:
        description: Model, as the CDI Manager calls it. It may be left out where there is only one.
        type: str
      fabric:
        description: Number of the fabric. It may be left out where there is only one.
        type: int
      count:
        description: How many devices or pods.
        type: int
      devices:
        description: Attached devices that are lost, by the CDI Manager's uids.
        type: list
        elements: str
      node:
        description: Name of a node.
        type: str
      like:
        description: Namespace and name of a captured pod with claims, such as V(training/worker-0).
        type: str
      namespace:
        description: Namespace of new pods. If not set, it is V(default).
        type: str
      devices_each:
        description: How many devices the claim of each new pod asks for. If not set, it is V(1).
        type: int
      cpu:
        description: CPU that each new pod requests, such as V(4) or V(500m). If not set, none.
        type: str
      memory:
        description: Memory that each new pod requests, such as V(16Gi). If not set, none.
        type: str
      settings:
        description:
          - Keys of the configuration that planners read, with other values, for example C(handover),
            C(device_no_removal_duration) (the hold time) or C(allocation_policy).
          - With another C(handover), C(handover_namespaces) or C(handover_models), pods that wait without an allocation
            count as made after the change. So they are held, or not, as the new value says.
        type: dict
attributes:
  check_mode:
    description: The module only reads.
    support: full
  diff_mode:
    description: C(before) and C(after) are in the result; nothing is changed.
    support: none
  platform:
    description: Runs where Python and the file are.
    platforms: posix
    support: full
seealso:
  - module: composable.infra.fabric_capture
  - module: composable.infra.claim_info
"""

EXAMPLES = r"""
- name: Would eight more GPUs serve everybody that waits?
  composable.infra.fabric_whatif:
    capture: /var/tmp/capture.json
    changes:
      - change: add_devices
        model: A100 40G
        fabric: 1
        count: 8
  register: answer

- name: Show the answer
  ansible.builtin.debug:
    msg: "{{ answer.table }}"

- name: Where would twenty more pods like this one go while a node is being repaired?
  composable.infra.fabric_whatif:
    capture: /var/tmp/capture.json
    changes:
      - change: drain_node
        node: node-3
      - change: add_pods
        like: training/worker-0
        count: 20
"""

RETURN = r"""
before:
  description: What the planners do with the capture as it is.
  returned: success
  type: dict
  contains: &answer
    claims:
      description:
        - One entry for each claim, sorted by namespace and name.
        - C(state) is V(served) (it waits for nothing), V(placed) (it has a node, and its devices are there or come),
          V(waiting), or V(released) (no node can serve its pod, which is let go without devices).
        - C(says) is the planner's own sentence.
      type: list
      elements: dict
      sample:
        - claim: default/train
          state: placed
          node: node-0
          says: node node-0 has room and 1 x A100 40G (1 to be attached)
    counts:
      description: How many claims are in each state.
      type: dict
      sample: {served: 3, placed: 1, waiting: 0, released: 0}
    attaches:
      description: Devices for which the CDI Manager would be asked first.
      type: list
      elements: dict
      sample: [{node: node-0, model: A100 40G, count: 1}]
    returns:
      description: Devices that would be given up first, for example since they were idle for longer than the hold time.
      type: list
      elements: dict
      sample: [{node: node-1, model: A100 40G, count: 2}]
    free:
      description: Devices that are free, before any of these attaches and returns.
      type: list
      elements: dict
      sample: [{model: A100 40G, fabric: 1, count: 4}]
    problems:
      description: What the CDI Manager could not say when the capture was taken.
      type: list
      elements: str
      sample: []
after:
  description: The same with the changes.
  returned: success
  type: dict
  contains: *answer
differs:
  description: Claims that are in another state or on another node with the changes, also those that are new or gone.
  returned: success
  type: list
  elements: str
  sample: [default/train]
table:
  description: Both answers as a table, line by line; claims that differ, wait or are released, forty at most.
  returned: success
  type: list
  elements: str
  sample: ["                BEFORE  AFTER", "claims served   3       4"]
taken:
  description: When the capture was taken, in seconds since the epoch.
  returned: success
  type: float
  sample: 1767323045.0
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.composable.infra.plugins.module_utils import engine_module
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif import capture_file
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.answer import answer
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.changes import CHANGES, changed
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.comparison import Comparison

CHANGE_OPTIONS = {
    "change": {"type": "str", "required": True, "choices": list(CHANGES)},
    **{name: {"type": "str"} for name in ("model", "node", "like", "namespace", "cpu", "memory")},
    **{name: {"type": "int"} for name in ("fabric", "count", "devices_each")},
    "devices": {"type": "list", "elements": "str"},
    "settings": {"type": "dict"},
}


def work(module: AnsibleModule) -> dict[str, object]:
    """Ask the planners twice. Reads the file and nothing else. Raises BadCapture or BadChange."""
    found = capture_file.read(module.params["capture"])
    compared = Comparison(answer(found), answer(changed(found, module.params["changes"])))
    return {"changed": False, "taken": found.taken, **compared.as_result()}


def main() -> None:
    """Entry of the module."""
    options = {"capture": {"type": "path", "required": True},
               "changes": {"type": "list", "elements": "dict", "default": [], "options": CHANGE_OPTIONS}}
    engine_module.run(AnsibleModule(argument_spec=options, supports_check_mode=True), work)


if __name__ == "__main__":
    main()
