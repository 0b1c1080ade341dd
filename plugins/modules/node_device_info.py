#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the devices that the node sees, and whether they are idle."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_device_info
short_description: Composable devices on a node, and whether a process has them open
version_added: 0.1.0
description:
  - Runs on the node, over SSH like any module, and needs only Python and its standard library there.
  - Reads the PCI bus below C(/sys), the driver's files below C(/proc), and the open files of all processes. It changes
    nothing, and does not connect to the CDI Manager.
author:
  - composable.infra contributors (@composable-infra)
options:
  device:
    description:
      - UUID of the GPU, or PCI address such as C(0000:10:00.0). Only this device is returned.
      - The task fails when the node does not show it.
    type: str
  root:
    description: Folder that contains the node's C(/sys) and C(/proc). Only tests need another folder than the default.
    type: path
    default: /
attributes:
  check_mode:
    description: Can run in check mode, because the module only reads.
    support: full
  diff_mode:
    description: There is nothing to compare, the module only reads.
    support: none
  platform:
    description: Runs on Linux nodes.
    platforms: linux
    support: full
requirements:
  - python >= 3.8
notes:
  - Needs root to read the open files of all processes. A device never counts as idle if its use
    cannot be read.
  - A device that C(nvidia-persistenced) or a DCGM of the host has open is not idle here.
    O(composable.infra.node_device#module:state=absent) has these release it first.
seealso:
  - module: composable.infra.node_device
"""

EXAMPLES = r"""
- name: What is on the bus?
  composable.infra.node_device_info:
  become: true
  register: bus

- name: Refuse to go on while a process has one of the devices open
  ansible.builtin.assert:
    that: item.idle
    fail_msg: "{{ item.why }}"
  loop: "{{ bus.devices }}"
  loop_control:
    label: "{{ item.address }}"
"""

RETURN = r"""
devices:
  description:
    - Composable devices on the bus, sorted by PCI address. C(vendor), C(device) and C(pci_class) are
      those of PCI. C(driver) is the kernel driver that is bound to the device.
    - C(uuid), C(minor) (the number in C(/dev/nvidia<n>)) and C(model) come from the NVIDIA driver.
    - C(idle) is true when it is proven that no process has the device open. Otherwise, C(why) gives
      the reason why it does not count as idle, and C(users) names the processes that have it open,
      as far as they can be read.
    - C(idle) is null for a memory device, of which only the attempt to take it offline shows whether it is in use.
  returned: success
  type: list
  elements: dict
  contains:
    address:
      description: PCI address.
      type: str
    vendor:
      description: Vendor id of PCI, hexadecimal.
      type: str
    device:
      description: Device id of PCI, hexadecimal.
      type: str
    pci_class:
      description: Class of PCI, hexadecimal.
      type: str
    driver:
      description: Kernel driver that is bound to the device. Null without one.
      type: str
    numa_node:
      description: NUMA node. Null if the kernel does not report it.
      type: int
    uuid:
      description: UUID by the NVIDIA driver, or the serial number of a memory device. Null where it is not known.
      type: str
    minor:
      description: The number in C(/dev/nvidia<n>). Null where it is not known.
      type: int
    model:
      description: Model by the NVIDIA driver. Null where it is not known.
      type: str
    idle:
      description: Whether no process has the device open. Null for a memory device.
      type: bool
    users:
      description: Processes that have the device open.
      type: list
      elements: str
    why:
      description: Why the device does not count as idle.
      type: str
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
      idle: false
      users: [pid 4711 (python)]
      why: "0000:10:00.0 is open on the node by pid 4711 (python). End these processes, or wait until they end"
"""

import typing as t
from dataclasses import asdict
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.composable.infra.plugins.module_utils.node import pci
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import NodeTrouble
from ansible_collections.composable.infra.plugins.module_utils.node.holders import Holders
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host
from ansible_collections.composable.infra.plugins.module_utils.node.options import Options
from ansible_collections.composable.infra.plugins.module_utils.node.probe import NotProven
from ansible_collections.composable.infra.plugins.module_utils.node.vendors import DEVICE_FILES, vendor_of


def look(root: Path, device: str | None) -> list[dict[str, t.Any]]:
    """Return a row for each device of the node, or for the named device.

    Raise NotProven, UnknownDevice.
    """
    found = [pci.need(root, device)] if device else pci.devices(root)
    return [dict(asdict(one), **_use(Host(root), one)) for one in found]


def _use(host: Host, device: pci.PciDevice) -> dict[str, t.Any]:
    """Return whether the device is idle, and otherwise its users and the reason."""
    vendor = vendor_of(device.vendor, device.pci_class)
    if vendor.idle_by != DEVICE_FILES:
        return {"idle": None, "users": [], "why": f"whether a device of {vendor.name} is in use shows only when it is "
                                                  "taken offline"}
    try:
        users = pci.users(host.root, device)
    except NotProven:
        users = []
    try:
        Holders(host, device, vendor, Options()).prove_idle()
    except NodeTrouble as error:
        return {"idle": False, "users": users, "why": str(error)}
    return {"idle": True, "users": users, "why": ""}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"device": {"type": "str"}, "root": {"type": "path", "default": "/"}},
                           supports_check_mode=True)
    try:
        module.exit_json(devices=look(Path(module.params["root"]), module.params["device"]))
    except (NotProven, pci.UnknownDevice) as error:
        module.fail_json(msg=str(error), error=type(error).__name__)


if __name__ == "__main__":
    main()
