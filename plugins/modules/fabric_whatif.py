#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the planners' decisions for a capture with those for a changed capture."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_whatif
short_description: What would happen if the fabric, the nodes, the pods or the settings were different
version_added: 0.1.0
description:
  - Takes a file of M(composable.infra.fabric_capture) and runs the planners of the cluster to find
    out what they would do first, as it was captured (C(before)) and with some changes (C(after)).
  - It needs neither cluster nor fabric, and reads nothing but the file.
  - It answers for the moment of the capture. With O(simulate) it also replays the hours after it in simulated time.
author:
  - composable.infra contributors (@composable-infra)
options:
  capture:
    description: File of M(composable.infra.fabric_capture).
    type: path
    required: true
  changes:
    description: The changes, applied in order.
    type: list
    elements: dict
    default: []
    suboptions:
      change:
        description:
          - V(add_devices) adds free devices to a fabric. It takes O(changes[].model), O(changes[].fabric) and
            O(changes[].count).
          - V(lose_devices) takes free devices away (the same fields), or attached ones
            (O(changes[].devices)) with the pods that use them, which are created again and wait.
          - V(drain_node) cordons O(changes[].node), evicts its pods and returns its devices to the fabric, as the
            playbook C(composable.infra.drain_and_detach) does.
          - V(lose_node) is the state after O(changes[].node) has been gone for
            C(gone_node_duration) and its machine is off. Its pods are created again and wait, and
            its devices are free.
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
        description: Number of devices that the claim of each new pod requests. If not set, it is
          V(1).
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
          - With another C(handover), C(handover_namespaces) or C(handover_models), pods that wait
            without an allocation count as created after the change. So the new value decides
            whether they are gated.
        type: dict
  simulate:
    description:
      - Replays hours in simulated time with the planners, as captured and with the changes, and
        returns waits, utilization, attaches, energy and the longest waits. If not set, nothing is
        replayed.
      - Times of steps are sampled from the timelines in the capture if it has at least five of a
        step, else from assumed bounds (O(simulate.steps)). The result names the source.
    type: dict
    suboptions:
      hours:
        description: How many hours.
        type: float
        default: 8.0
      seeds:
        description: Number of replays, each with other random numbers. Their spread shows how
          certain the answer is.
        type: int
        default: 3
      seed:
        description: The first of the seeds. The same seeds give the same answer.
        type: int
        default: 1
      watts:
        description: Power of a device that is attached and idle, for the energy.
        type: float
        default: 60.0
      steps:
        description:
          - Shortest and longest duration of steps in seconds, for example V([5, 15]) for C(attach).
          - Steps are C(request) (until the request to the CDI Manager), C(attach) (by the CDI
            Manager), C(slice) (on the node, until its ResourceSlice shows the device), C(gate)
            (until the gate of a gated pod is removed), C(bind) (of such a pod), C(handover) (of a
            pod without a gate), C(start) (of its containers), C(leave) (the node releases a device)
            and C(detach).
        type: dict
      load:
        description:
          - New pods. Each entry is one kind of pod, described as in the change C(add_pods), and
            either C(per_hour) and C(lifetime), or C(arrivals), or C(captured).
        type: list
        elements: dict
        required: true
        suboptions:
          like:
            description: As O(changes[].like).
            type: str
          namespace:
            description: As O(changes[].namespace).
            type: str
          model:
            description: As O(changes[].model).
            type: str
          devices_each:
            description: As O(changes[].devices_each).
            type: int
          cpu:
            description: As O(changes[].cpu).
            type: str
          memory:
            description: As O(changes[].memory).
            type: str
          per_hour:
            description: Mean number of pods in an hour, created at random moments.
            type: float
          burst:
            description: Number of pods that are created together. If not set, V(1).
            type: int
          lifetime:
            description: For how long a pod runs in the mean, in seconds (exponential).
            type: float
          arrivals:
            description: Recorded arrivals instead, each a list of its moment and its lifetime, in seconds.
            type: list
            elements: list
          captured:
            description:
              - V(true) for the arrivals of the day before the capture once more, as far as it has
                them. If a claim's creation time is known, the replay creates it at that time with
                its devices. If a claim was only counted, the replay creates it at a random moment
                of its hour with the devices of a known claim.
              - O(simulate.load[].lifetime) is required if the capture has fewer than five
                lifetimes. A shape, such as O(simulate.load[].model), is required if it has no claim
                with devices.
            type: bool
  make_room:
    description:
      - Also finds the idle devices that must leave their nodes, after the changes, so that a large
        claim fits on one node. M(composable.infra.fabric_defragment) answers the same for the
        cluster of now, and carries it out.
    type: dict
    suboptions:
      claim:
        description: Namespace and name of a ResourceClaim that waits, such as V(training/large).
        type: str
      model:
        description: Instead of a waiting claim, the model of a future claim.
        type: str
      count:
        description: Number of devices of O(make_room.model) that the future claim requests.
        type: int
        default: 1
      node_labels:
        description: >-
          Labels of the nodes on which its pod may run. With O(make_room.claim) its pod's node selector counts.
        type: dict
attributes:
  check_mode:
    description: The module only reads.
    support: full
  diff_mode:
    description: The result has C(before) and C(after). The module changes nothing.
    support: none
  platform:
    description: Runs where Python and the file are.
    platforms: posix
    support: full
seealso:
  - module: composable.infra.fabric_capture
  - module: composable.infra.fabric_defragment
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

- name: If node-3 is drained, what has to move so that a claim for eight GPUs fits on another node?
  composable.infra.fabric_whatif:
    capture: /var/tmp/capture.json
    changes:
      - change: drain_node
        node: node-3
    make_room:
      model: A100 40G
      count: 8

- name: What do four hours of jobs wait, with eight more GPUs and with a shorter hold time?
  composable.infra.fabric_whatif:
    capture: /var/tmp/capture.json
    changes:
      - change: add_devices
        model: A100 40G
        count: 8
      - change: settings
        settings: {device_no_removal_duration: 120}
    simulate:
      hours: 4
      seeds: 5
      load:
        - {model: A100 40G, per_hour: 30, lifetime: 900}
        - {model: A100 40G, devices_each: 4, namespace: training, per_hour: 2, lifetime: 3600}
  register: answer
"""

RETURN = r"""
before:
  description: Result of the planners for the unchanged capture.
  returned: success
  type: dict
  contains: &answer
    claims:
      description:
        - One entry for each claim, sorted by namespace and name.
        - C(state) is V(served) (it waits for nothing), V(placed) (it has a node, and its devices
          are there or come), V(waiting), or V(released) (no node can serve its pod, which is
          released without devices).
        - C(says) is the planner's own sentence.
      type: list
      elements: dict
      contains:
        claim:
          description: Namespace and name.
          type: str
        state:
          description: V(served), V(placed), V(waiting) or V(released).
          type: str
        node:
          description: Node of the pod. Empty without one.
          type: str
        says:
          description: The planner's own sentence.
          type: str
      sample:
        - claim: default/train
          state: placed
          node: node-0
          says: node node-0 has room and 1 x A100 40G (1 to be attached)
    counts:
      description: How many claims are in each state.
      type: dict
      contains:
        served:
          description: Number of claims in the state V(served).
          type: int
        placed:
          description: Number of claims in the state V(placed).
          type: int
        waiting:
          description: Number of claims in the state V(waiting).
          type: int
        released:
          description: Number of claims in the state V(released).
          type: int
      sample: {served: 3, placed: 1, waiting: 0, released: 0}
    attaches:
      description: Devices that would be requested from the CDI Manager first.
      type: list
      elements: dict
      contains: &moves
        node:
          description: Node.
          type: str
        model:
          description: Model as the CDI Manager names it.
          type: str
        count:
          description: Number of devices.
          type: int
      sample: [{node: node-0, model: A100 40G, count: 1}]
    returns:
      description: Devices that would be returned first, for example because they were idle for
        longer than the hold time.
      type: list
      elements: dict
      contains: *moves
      sample: [{node: node-1, model: A100 40G, count: 2}]
    free:
      description: Devices that are free, before any of these attaches and returns.
      type: list
      elements: dict
      contains:
        model:
          description: Model as the CDI Manager names it.
          type: str
        fabric:
          description: Number of the fabric.
          type: int
        count:
          description: Number of devices.
          type: int
      sample: [{model: A100 40G, fabric: 1, count: 4}]
    problems:
      description: Questions that the CDI Manager could not answer when the capture was taken.
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
  description: Both answers as a table, line by line. It has at most forty claims that differ, wait
    or are released.
  returned: success
  type: list
  elements: str
  sample: ["                BEFORE  AFTER", "claims served   3       4"]
room:
  description: Which idle devices have to leave their nodes so that the claim fits on one node.
  returned: when O(make_room) is set
  type: dict
  contains:
    id:
      description: The same for the same target and the same devices. Empty without moves.
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
      description: The planners' reason.
      type: str
    ask:
      description: Purpose of the plan.
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
    says:
      description: The plan in one sentence.
      type: str
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
    ask: {model: A100 40G, count: 4, claim: training/large, node_labels: {}}
    says: move 1 x A100 40G from node node-1, then 4 x A100 40G on one node for claim training/large fits on node node-0
simulated:
  description: The replayed load.
  returned: when O(simulate) is set
  type: dict
  contains:
    before:
      description: The unchanged capture.
      type: dict
      contains: &simulated
        figures:
          description: Each with C(median), C(low) and C(high) over the seeds.
          type: dict
          sample: {wait_p95: {median: 21.4, low: 19.0, high: 24.7}}
        namespaces:
          description:
            - For each, the wait that 95% of its pods do not exceed, the number of pods that wait at
              the end, and the number of pods that no plan can serve (C(unfit)). The waiting pods do
              not include the latter. The longest wait is first.
          type: list
          elements: dict
          contains:
            namespace:
              description: Namespace.
              type: str
            wait_p95:
              description: Wait in seconds that 95% of its pods do not exceed.
              type: float
            waiting:
              description: Pods that wait at the end.
              type: float
            unfit:
              description: Pods that no plan can serve.
              type: float
          sample: [{namespace: training, wait_p95: 21.4, waiting: 0.0, unfit: 0.0}]
        longest:
          description: The pods that waited longest, with the first seed.
          type: list
          elements: dict
          contains:
            pod:
              description: Namespace and name.
              type: str
            waited:
              description: Wait in seconds.
              type: float
            runs:
              description: Whether it ran in the end.
              type: bool
          sample: [{pod: training/replay-7, waited: 31.0, runs: true}]
        durations:
          description: Source of the durations of each step.
          type: dict
          sample: {attach: "5 to 15 s, assumed"}
    after:
      description: The same with the changes.
      type: dict
      contains: *simulated
    table:
      description: Both as a table, line by line.
      type: list
      elements: str
      sample: ["8 h simulated   BEFORE  AFTER", "pods created  240     240"]
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
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay import simulation
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.room.question import room
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.room.room_requests import asked

CHANGE_OPTIONS = {
    "change": {"type": "str", "required": True, "choices": list(CHANGES)},
    **{name: {"type": "str"} for name in ("model", "node", "like", "namespace", "cpu", "memory")},
    **{name: {"type": "int"} for name in ("fabric", "count", "devices_each")},
    "devices": {"type": "list", "elements": "str"},
    "settings": {"type": "dict"},
}
LOAD_OPTIONS = {
    **{name: {"type": "str"} for name in ("like", "namespace", "model", "cpu", "memory")},
    **{name: {"type": "int"} for name in ("devices_each", "burst")},
    **{name: {"type": "float"} for name in ("per_hour", "lifetime")},
    "arrivals": {"type": "list", "elements": "list"}, "captured": {"type": "bool"},
}
SIMULATE_OPTIONS = {
    "hours": {"type": "float", "default": 8.0}, "seeds": {"type": "int", "default": 3},
    "seed": {"type": "int", "default": 1}, "watts": {"type": "float", "default": 60.0}, "steps": {"type": "dict"},
    "load": {"type": "list", "elements": "dict", "required": True, "options": LOAD_OPTIONS},
}
ROOM_OPTIONS = {"claim": {"type": "str"}, "model": {"type": "str"}, "count": {"type": "int", "default": 1},
                "node_labels": {"type": "dict"}}


def work(module: AnsibleModule) -> dict[str, object]:
    """Run the planners for the capture and for the changed capture.

    Read only the file. Raise BadCapture, BadChange or BadRoomRequest.
    """
    found = capture_file.read(module.params["capture"])
    after = changed(found, module.params["changes"])
    result = {"changed": False, "taken": found.taken, **Comparison(answer(found), answer(after)).as_result()}
    if module.params["make_room"]:
        plan = room(after, asked(module.params["make_room"]))
        result["room"] = {**plan.as_data(), "says": plan.sentence}
    if module.params["simulate"]:
        result["simulated"] = simulation.compared(found, after, module.params["simulate"])
    return result


def main() -> None:
    """Run the module."""
    options = {"capture": {"type": "path", "required": True},
               "changes": {"type": "list", "elements": "dict", "default": [], "options": CHANGE_OPTIONS},
               "make_room": {"type": "dict", "options": ROOM_OPTIONS, "required_one_of": [("claim", "model")],
                             "mutually_exclusive": [("claim", "model"), ("claim", "node_labels")]},
               "simulate": {"type": "dict", "options": SIMULATE_OPTIONS}}
    engine_module.run(AnsibleModule(argument_spec=options, supports_check_mode=True), work)


if __name__ == "__main__":
    main()
