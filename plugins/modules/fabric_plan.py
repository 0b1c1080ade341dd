#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole fabric as data."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_plan
short_description: Bring a whole composable fabric into a wanted layout
version_added: 1.0.0
description:
  - Compares a wanted layout, which machine has how many devices of which model, with what the CDI Manager shows, and
    carries out what is missing.
  - A machine that O(layout) names shall have exactly the devices that are written there. Others are left alone unless
    O(unlisted=empty).
  - Everything is planned before anything is done. A layout that needs more devices than the fabric has is refused as a
    whole.
  - Speaks to the CDI Manager only. It knows nothing of Kubernetes, so it does not ask whether a pod uses a device.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.fabric
options:
  layout:
    description:
      - "Maps uids or names of machines to mappings from models to numbers of devices, for example
        C({node-0: {A100 40G: 2}, node-1: {}})."
      - The diff of the result has this form on both sides, so the layout of today can be kept and brought back.
    type: dict
    required: true
  kinds:
    description:
      - "Kinds of models that no machine has yet, for example C({CXL-512G: memory}). The others are known from the
        machines. What is named nowhere is a GPU."
    type: dict
    default: {}
  unlisted:
    description: Whether machines that O(layout) does not name keep their devices or give all of them back.
    type: str
    choices: [keep, empty]
    default: keep
  state:
    description:
      - V(applied) carries the plan out. V(planned) only returns it and reports no change.
      - Check mode returns the same plan and reports whether it would change something.
    type: str
    choices: [applied, planned]
    default: applied
  attach_seconds:
    description:
      - How long the CDI Manager takes to attach a device, for RV(predicted_seconds).
      - What it took is in the C(seconds) of each of RV(results).
    type: float
    default: 10.0
  detach_seconds:
    description: How long the CDI Manager takes to detach a device, for RV(predicted_seconds).
    type: float
    default: 10.0
attributes:
  check_mode:
    description: Returns the plan that apply carries out, and asks the CDI Manager for nothing.
    support: full
  diff_mode:
    description: Returns the layout before and after.
    support: full
  platform:
    description: Runs where Python and the network path to the CDI Manager are.
    platforms: posix
    support: full
notes:
  - All detaches are begun first, then all attaches, as many at a time as the CDI Manager takes. One that fails does not
    keep the others from being done; the task then fails, and running it again does the rest.
  - Of too many devices those that are not well go first.
seealso:
  - module: composable.infra.fabric_device
  - module: composable.infra.fabric_info
"""

EXAMPLES = r"""
- name: See what would move, and how long it would take
  composable.infra.fabric_plan:
    endpoint: https://fabric-manager.example.com
    tenant: 00000000-0000-4000-8000-000000000001
    credentials_dir: /etc/composable-infra/credentials
    layout: "{{ lookup('ansible.builtin.file', 'fabric.yml') | from_yaml }}"
    state: planned
  diff: true
  register: plan

- name: Give node-0 four GPUs and take all from node-1
  composable.infra.fabric_plan:
    endpoint: https://fabric-manager.example.com
    tenant: 00000000-0000-4000-8000-000000000001
    credentials_dir: /etc/composable-infra/credentials
    layout:
      node-0: {A100 40G: 4}
      node-1: {}
"""

RETURN = r"""
plan:
  description: What is to be done, in order. Empty when the fabric is as it should be.
  returned: success, and when the plan was refused or failed
  type: list
  elements: dict
  sample:
    - action: detach
      machine: 5a2b4a1e-3c1f-5d4e-8f6a-0b1c2d3e4f50
      name: node-1
      model: A100 40G
      count: 1
      device: 8c9d0e1f-2a3b-4c5d-8e9f-0a1b2c3d4e5f
      reason: node-1 has 1 x A100 40G, 0 wanted
predicted_seconds:
  description: How long carrying out may take.
  returned: success, and when the plan was refused or failed
  type: float
  sample: 20.0
seconds:
  description: How long carrying out took.
  returned: when something was carried out
  type: float
  sample: 18.7
shortages:
  description: Why the layout cannot be had, one sentence for each model and fabric.
  returned: success, and when the plan was refused or failed
  type: list
  elements: str
  sample: []
problems:
  description: What could not be counted, per model and fabric. Shortages of it are not foreseen.
  returned: success, and when the plan was refused or failed
  type: dict
  sample: {}
results:
  description: What became of each step of the plan.
  returned: when something was carried out
  type: list
  elements: dict
  sample:
    - action: attach
      machine: 5a2b4a1e-3c1f-5d4e-8f6a-0b1c2d3e4f50
      name: node-0
      model: A100 40G
      failed: false
      seconds: 9.4
"""

import typing as t
from contextlib import closing

from ansible_collections.composable.infra.plugins.module_utils import door as doors
from ansible_collections.composable.infra.plugins.module_utils.fabric import rebuild

SPEC: dict[str, t.Any] = {
    "argument_spec": {
        **doors.FABRIC_OPTIONS,
        "layout": {"type": "dict", "required": True},
        "kinds": {"type": "dict", "default": {}},
        "unlisted": {"type": "str", "choices": ["keep", "empty"], "default": "keep"},
        "state": {"type": "str", "choices": ["applied", "planned"], "default": "applied"},
        "attach_seconds": {"type": "float", "default": 10.0},
        "detach_seconds": {"type": "float", "default": 10.0},
    },
    "supports_check_mode": True,
}


def work(door: doors.Door) -> dict[str, t.Any]:
    """Plan, and carry out."""
    params = door.params
    with closing(doors.fabric(params)) as fabric:
        found = rebuild.survey(fabric, params["layout"], params["kinds"], params["unlisted"] == "empty")
        result = found.result(params["attach_seconds"], params["detach_seconds"])
        result["changed"] = bool(found.plan.steps) and params["state"] == "applied"
        if found.shortages:
            return result | {"changed": False, "failed": True, "msg": "; ".join(found.shortages), "error": "Refused"}
        if door.check_mode or not result["changed"]:
            return result
        return result | rebuild.carry_out(fabric, found.plan, params["attach_timeout"], door.say)


def main() -> None:
    """Module entry."""
    doors.main(SPEC, work)


if __name__ == "__main__":
    main()
