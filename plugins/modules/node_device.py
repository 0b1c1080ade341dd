#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices as the node itself sees them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_device
short_description: List, find, prove idle and remove composable devices on a node
version_added: 1.0.0
description:
  - Runs on the node, over SSH as any module, and needs nothing there but Python and its standard library.
  - Looks at the PCI bus below C(/sys), at what the NVIDIA driver shows below C(/proc), and at the open files of all
    processes.
  - It does not speak to the CDI Manager. Attach before V(present) with M(composable.infra.fabric_device); detach after
    V(absent).
author:
  - composable.infra contributors (@composable-infra)
options:
  state:
    description:
      - V(listed) only reads.
      - V(present) makes sure that the node shows O(device), and has the kernel look for new devices when it does not.
        Without O(device) the kernel is always made to look.
      - V(idle) fails unless it is proven that no process has O(device) open. Changes nothing.
      - V(absent) takes O(device) off the bus, after it was proven idle or with O(force).
    type: str
    choices: [listed, present, idle, absent]
    default: listed
  device:
    description: UUID of the GPU, or PCI address such as C(0000:10:00.0).
    type: str
  force:
    description:
      - Remove the device also while a process has it open, or where idleness cannot be proven.
      - The kernel may then hang on the removal until the node is started anew.
    type: bool
    default: false
  timeout:
    description: Seconds to wait for the kernel.
    type: float
    default: 30.0
  root:
    description: Folder below which the node's C(/sys) and C(/proc) are found. Only a laboratory needs another one.
    type: path
    default: /
attributes:
  check_mode:
    description: Can run in check mode. For V(present) it cannot know what the kernel would find and predicts a change.
    support: full
  diff_mode:
    description: Returns the PCI addresses on the bus before and after.
    support: full
  platform:
    description: Runs on Linux nodes.
    platforms: linux
    support: full
requirements:
  - python >= 3.11
notes:
  - Needs root to read the open files of all processes and to write to C(/sys). What cannot be read is never taken for
    idle.
  - A device that a CUDA or vLLM process uses, or C(nvidia-persistenced), counts as held. Users inside the kernel, such
    as C(nvidia_drm) with modeset, show in no process; the card of C(/dev/dri) is looked at, the rest is not.
seealso:
  - module: composable.infra.fabric_device
"""

EXAMPLES = r"""
- name: What is on the bus?
  composable.infra.node_device:
  become: true
  register: bus

- name: Find the device that was attached just now
  composable.infra.node_device:
    state: present
    device: GPU-2f6c1d9e-7a3b-4f5e-9c8d-1a2b3c4d5e6f
  become: true

- name: Take it off the bus before it is detached; fails while somebody uses it
  composable.infra.node_device:
    state: absent
    device: GPU-2f6c1d9e-7a3b-4f5e-9c8d-1a2b3c4d5e6f
  become: true
"""

RETURN = r"""
devices:
  description:
    - Composable devices on the bus afterwards, by PCI address. Ids and class are those of PCI; C(driver) is the
      kernel's driver that has the device.
    - C(uuid), C(minor) (the number in C(/dev/nvidia<n>)) and C(model) are what the NVIDIA driver says.
  returned: success
  type: list
  elements: dict
  sample:
    - address: "0000:10:00.0"
      vendor: 10de
      device: 20f1
      pci_class: "030200"
      driver: nvidia
      numa_node: 0
      uuid: GPU-2f6c1d9e-7a3b-4f5e-9c8d-1a2b3c4d5e6f
      minor: 0
      model: NVIDIA A100-PCIE-40GB
users:
  description: Processes that have O(device) open.
  returned: when O(state) is V(idle) or V(absent) and it could be told
  type: list
  elements: str
  sample: [pid 4711 (python)]
"""

import typing as t
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.composable.infra.plugins.module_utils.node import pci
from ansible_collections.composable.infra.plugins.module_utils.node.probe import NotProven

Result = dict[str, t.Any]


class Held(Exception):
    """The device is in use; ``users`` says by whom."""

    def __init__(self, device: str, users: list[str]) -> None:
        super().__init__(f"device {device} is held by {', '.join(users)}; end them first, or set force")
        self.users = users


def work(params: Mapping[str, t.Any], check_mode: bool) -> Result:
    """Look at the bus, and do as the state says."""
    root = Path(params["root"])
    before = pci.devices(root)
    if params["state"] == "listed":
        return _result(before, before)
    done = {"present": _present, "idle": _idle, "absent": _absent}[params["state"]](root, params, check_mode)
    after = done.pop("after", None)
    return _result(before, pci.devices(root) if after is None else after) | done


def _result(before: list[pci.PciDevice], after: list[pci.PciDevice]) -> Result:
    old, new = [d.address for d in before], [d.address for d in after]
    return {"changed": old != new, "devices": [asdict(d) for d in after],
            "diff": {"before": {"devices": old}, "after": {"devices": new}}}


def _present(root: Path, params: Mapping[str, t.Any], check_mode: bool) -> Result:
    wanted = params["device"]
    if wanted and pci.find(root, wanted):
        return {}
    if check_mode:
        return {"changed": True}
    pci.rescan(root, params["timeout"])
    if wanted and pci.await_device(root, wanted, params["timeout"]) is None:
        pci.need(root, wanted)
    return {}


def _idle(root: Path, params: Mapping[str, t.Any], check_mode: bool) -> Result:
    found = pci.need(root, params["device"])
    if users := pci.users(root, found):
        raise Held(found.address, users)
    return {"users": []}


def _absent(root: Path, params: Mapping[str, t.Any], check_mode: bool) -> Result:
    found = pci.find(root, params["device"])
    if found is None:
        return {}
    users = _users(root, found, params["force"])
    if users and not params["force"]:
        raise Held(found.address, users)
    told: Result = {} if users is None else {"users": users}
    if check_mode:
        return told | {"after": [d for d in pci.devices(root) if d != found]}
    pci.remove(root, found, params["timeout"])
    return told


def _users(root: Path, device: pci.PciDevice, force: bool) -> list[str] | None:
    try:
        return pci.users(root, device)
    except NotProven:
        if force:
            return None
        raise


def main() -> None:
    """Module entry."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["listed", "present", "idle", "absent"], "default": "listed"},
            "device": {"type": "str"},
            "force": {"type": "bool", "default": False},
            "timeout": {"type": "float", "default": 30.0},
            "root": {"type": "path", "default": "/"},
        },
        required_if=[("state", "idle", ("device",)), ("state", "absent", ("device",))],
        supports_check_mode=True)
    try:
        result = work(module.params, module.check_mode)
    except (NotProven, pci.UnknownDevice, pci.NotDone, Held) as error:
        module.fail_json(msg=str(error), error=type(error).__name__, users=getattr(error, "users", []))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
