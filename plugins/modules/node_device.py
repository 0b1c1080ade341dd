#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring up devices on a node, and remove them from the node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_device
short_description: Make composable devices usable on a node, and remove them from it
version_added: 0.1.0
description:
  - Runs on the node, over SSH like any module, and needs only Python and its standard library there.
  - Reads the PCI bus below C(/sys), the driver's files below C(/proc), and the open files of all processes. Writes to
    C(/sys), and runs the tools of the device's vendor, such as C(nvidia-smi).
  - It does not connect to the CDI Manager. Before O(state=present), attach the device with
    M(composable.infra.fabric_device). After O(state=absent), detach it with that module.
author:
  - composable.infra contributors (@composable-infra)
options:
  state:
    description:
      - V(present) makes the device usable. It waits for the device, has the kernel rescan if the
        device does not appear, checks its memory windows and its link, binds its driver, and uses
        it once. Without O(device) and O(uid), the kernel only searches for new devices.
      - V(absent) removes the device from the bus. The vendor's software releases the device, the
        module proves it idle, drains it so that no new process can use it, and proves it idle
        again. If the device is in use, the module undoes all of this and fails.
    type: str
    choices: [present, absent]
    default: present
  device:
    description:
      - UUID of the GPU, or PCI address such as C(0000:10:00.0).
      - With O(uid) it may be missing. Then the device is the one that is not in O(known).
    type: str
  uid:
    description: Uid of the device at the CDI Manager. RV(evidence) is about this device.
    type: str
  known:
    description: UUIDs and PCI addresses of devices of the node that are certainly others.
    type: list
    elements: str
    default: []
  evidence:
    description: Finished steps of the device, in the form of RV(evidence). Steps keep their time.
    type: dict
  rescan:
    description:
      - Scope of a rescan if a device does not appear by itself.
      - V(port) is the bridges in O(ports), V(bus) the whole bus, V(never) nothing.
    type: str
    choices: [port, bus, never]
    default: port
  ports:
    description:
      - PCI addresses of the bridges behind which devices of the fabric appear. The module then does
        not touch other devices.
      - If not set, the kernel rescans the bridges that have nothing behind them.
    type: list
    elements: str
    default: []
  driver:
    description: Kernel driver for the device, instead of the one of its vendor.
    type: str
  force:
    description:
      - Whether the device is removed even while a process has it open, or when it cannot be proven idle.
      - The removal may then hang in the kernel until the node is rebooted.
    type: bool
    default: false
  event_timeout:
    description: Seconds to wait for a device to appear by itself, before a rescan.
    type: float
    default: 2.0
  timeout:
    description: Seconds to wait for the device, and for each answer of the kernel or of a tool.
    type: float
    default: 30.0
  node:
    description:
      - Name of the Kubernetes node that this machine must be.
      - If the machine is another one, the module fails before it touches anything. The system UUID decides if
        O(system_uuid) is set and the machine's own can be read. Otherwise the host name decides.
    type: str
  system_uuid:
    description: System UUID of the machine, as the Node has it in C(status.nodeInfo.systemUUID).
    type: str
  root:
    description: Folder that contains the node's C(/sys) and C(/proc). Only tests need another folder than the default.
    type: path
    default: /
attributes:
  check_mode:
    description:
      - Can run in check mode. With O(state=present) it cannot know what the kernel would find, so it predicts a change
        unless the device is there and has its driver.
    support: full
  diff_mode:
    description: Returns the PCI addresses on the bus before and after.
    support: full
  platform:
    description: Runs on Linux nodes.
    platforms: linux
    support: full
requirements:
  - python >= 3.8
notes:
  - Only one task works on a machine at a time. While another one works, the module fails and changes nothing. The lock
    is C(/run/composable.infra/node_device.lock). The kernel frees it when the task ends, however that happens.
  - Needs root to read the open files of all processes and to write to C(/sys). A device never
    counts as idle if its use cannot be read.
  - A device that a process has open, such as a CUDA program or vLLM, counts as in use.
    C(nvidia-persistenced) and a DCGM of the host get a request to release it. With C(nvidia_drm) in
    modeset, the kernel itself may use a GPU, so such a GPU never counts as idle.
seealso:
  - module: composable.infra.node_device_info
  - module: composable.infra.fabric_device
"""

EXAMPLES = r"""
- name: Make the device usable that was attached just now
  composable.infra.node_device:
    state: present
    device: GPU-2f6c1d9e-7a3b-4f5e-9c8d-1a2b3c4d5e6f
  become: true

- name: Remove a device from the bus before its detach, which fails while a process has the device
    open
  composable.infra.node_device:
    state: absent
    device: GPU-2f6c1d9e-7a3b-4f5e-9c8d-1a2b3c4d5e6f
    node: worker-1
  become: true
"""

RETURN = r"""
devices:
  description:
    - Composable devices on the bus after the task, sorted by PCI address. C(vendor), C(device) and C(pci_class) are
      those of PCI. C(driver) is the kernel driver that is bound to the device.
    - C(uuid), C(minor) (the number in C(/dev/nvidia<n>)) and C(model) come from the NVIDIA driver.
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
  returned: when the task fails since the device is open
  type: list
  elements: str
  sample: [pid 4711 (python)]
evidence:
  description:
    - Finished steps of the device, in the form of the annotation C(composable.infra/node) of a
      ComposableResource.
    - C(trouble) gives the reason why a step was not done. It has C(reason), C(message) and
      C(since).
    - C(release) is the value of the annotation C(composable.infra/release) with which the operator
      requested the release of the device, if RV(evidence) was given with a value.
  returned: when a device was named, also when the task fails
  type: dict
  contains:
    version:
      description: Version of the form.
      type: int
    phase:
      description: V(Preparing), V(Ready), V(Releasing) or V(Removed).
      type: str
    device:
      description: Uid of the device at the CDI Manager.
      type: str
    by:
      description: Program that did the steps, V(agent) or V(ssh).
      type: str
    uuid:
      description: UUID of the device. Empty where it is not known.
      type: str
    address:
      description: PCI address. Empty where it is not known.
      type: str
    numaNode:
      description: NUMA node.
      type: int
      returned: when it is known
    link:
      description: Link of the device.
      type: dict
      returned: when it is known
      contains:
        width:
          description: Lanes in use.
          type: int
        maxWidth:
          description: Lanes that the device has.
          type: int
        speed:
          description: Speed in use.
          type: str
        maxSpeed:
          description: Highest speed of the device.
          type: str
    release:
      description: Value of the annotation C(composable.infra/release).
      type: str
      returned: when the node was asked to let the device go
    steps:
      description: Steps in the order in which they were done.
      type: list
      elements: dict
      contains:
        step:
          description: Name of the step.
          type: str
        at:
          description: Moment of the step, RFC 3339.
          type: str
    trouble:
      description: Why a step was not done.
      type: dict
      returned: when a step was not done
      contains:
        reason:
          description: Reason in one word.
          type: str
        message:
          description: The reason in one sentence.
          type: str
        since:
          description: Moment when it was first met, RFC 3339.
          type: str
  sample:
    version: 1
    phase: Preparing
    device: 8c9d0e1f-2a3b-4c5d-8e9f-0a1b2c3d4e5f
    by: ssh
    uuid: GPU-2f6c1d9e-7a3b-4f5e-9c8d-1a2b3c4d5e6f
    address: "0000:10:00.0"
    numaNode: 0
    steps:
      - step: OnBus
        at: "2026-11-22T20:00:00.123456Z"
"""

import json
import re
import typing as t
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.composable.infra.plugins.module_utils.host import machine
from ansible_collections.composable.infra.plugins.module_utils.node import bus, pci
from ansible_collections.composable.infra.plugins.module_utils.node.bring_up import bring_up
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    PREPARING,
    RELEASING,
    Evidence,
    NodeTrouble,
)
from ansible_collections.composable.infra.plugins.module_utils.node.holders import Holders
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host
from ansible_collections.composable.infra.plugins.module_utils.node.options import RESCANS, Options
from ansible_collections.composable.infra.plugins.module_utils.node.probe import NotProven
from ansible_collections.composable.infra.plugins.module_utils.node.release import release, take_back
from ansible_collections.composable.infra.plugins.module_utils.node.search import Wanted, look
from ansible_collections.composable.infra.plugins.module_utils.node.vendors import vendor_of

_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class BadOption(Exception):
    """An option has a wrong value. The message names option, value and allowed values."""


class Task:
    """One task. ``params`` are the module's options, ``evidence`` is the last evidence."""

    def __init__(self, params: Mapping[str, t.Any], check_mode: bool) -> None:
        self.params, self.check_mode = params, check_mode
        self.host = Host(Path(params["root"]))
        self.device = params.get("device") or ""
        self.uid = params.get("uid") or ""
        self.evidence = self._so_far()
        self.options = Options(
            event_patience=params["event_timeout"], search_patience=params["timeout"], patience=params["timeout"],
            rescan=params["rescan"], ports=tuple(params.get("ports") or ()), driver=params.get("driver") or "",
            force=params["force"], by="ssh")

    def _so_far(self) -> Evidence | None:
        given = self.params.get("evidence")
        if not given:
            return None
        found = Evidence.parse(json.dumps(given))
        if found is None:
            raise BadOption(f"evidence: {json.dumps(given)} is not usable: must be what the module has returned")
        return found

    def work(self) -> dict[str, t.Any]:
        """Change the device to ``state``. Return the result of the module.

        Raise NodeTrouble, NotProven, UnknownDevice, machine.OtherMachine or machine.Busy.
        """
        machine.check(self.host.root, self.params.get("node") or "", self.params.get("system_uuid") or "")
        if self.check_mode:
            return self._work()
        with machine.alone(self.host.root):
            return self._work()

    def _work(self) -> dict[str, t.Any]:
        for port in self.options.ports:
            if not _ADDRESS.fullmatch(port):
                raise BadOption(f"ports: {port!r} is not usable: must be a PCI address such as 0000:00:01.0")
        before = pci.devices(self.host.root)
        done = self._present() if self.params["state"] == "present" else self._absent()
        after = done.pop("after", None)
        after = pci.devices(self.host.root) if after is None else after
        old, new = [d.address for d in before], [d.address for d in after]
        return dict({"changed": before != after, "devices": [asdict(d) for d in after],
                     "diff": {"before": {"devices": old}, "after": {"devices": new}}}, **done)

    def _note(self, evidence: Evidence) -> None:
        self.evidence = evidence

    def _told(self) -> dict[str, t.Any]:
        return {"evidence": json.loads(self.evidence.to_json())} if self.evidence else {}

    def _present(self) -> dict[str, t.Any]:
        if not (self.device or self.uid):
            if self.check_mode:
                return {"changed": True}
            look(self.host.root, self.options)
            return {}
        found = pci.find(self.host.root, self.device)
        usable = found is not None and found.driver is not None
        if self.check_mode:
            return dict(self._told(), changed=not usable)
        by_address = bool(_ADDRESS.fullmatch(self.device))
        wanted = Wanted(self.uid, uuid="" if by_address else self.device, address=self.device if by_address else "",
                        known=frozenset(self.params.get("known") or ()), before=self.evidence)
        if self.evidence and self.evidence.phase == RELEASING:
            take_back(self.host, self.evidence, self.options, self._note)
            wanted = replace(wanted, before=self.evidence)
        self.evidence = bring_up(self.host, wanted, self.options, self._note)
        return self._told()

    def _holders(self, found: pci.PciDevice) -> Holders:
        return Holders(self.host, found, vendor_of(found.vendor, found.pci_class), self.options)

    def _absent(self) -> dict[str, t.Any]:
        found = pci.find(self.host.root, self.device)
        if self.check_mode:
            return dict(self._told(), **self._absent_predicted(found))
        by_address = bool(_ADDRESS.fullmatch(self.device))
        if by_address and found is None:
            return self._told()
        before = self.evidence or Evidence(PREPARING, self.uid, uuid="" if by_address else self.device,
                                           address=found.address if found else "")
        if not before.address:
            # A device that appears after the request for its detach would be removed while in use
            # by its driver.
            bus.await_device(self.host.root, before.uuid, self.options.event_patience)
        self.evidence = release(self.host, before, self.options, self._note, lambda: "", self.params.get("known") or ())
        return self._told()

    def _absent_predicted(self, found: pci.PciDevice | None) -> dict[str, t.Any]:
        if found is None:
            return {}
        if not self.options.force:
            self._holders(found).prove_idle()
        return {"after": [d for d in pci.devices(self.host.root) if d != found]}

    def failed(self, error: Exception) -> dict[str, t.Any]:
        """Return the result of the module after a failure."""
        try:
            found = pci.find(self.host.root, self.device)
            users = pci.users(self.host.root, found) if found else []
        except NotProven:
            users = []
        name = type(error).__name__
        reason = error.reason if isinstance(error, NodeTrouble) else name
        return dict(self._told(), msg=str(error), error=reason, users=users)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "device": {"type": "str"},
            "uid": {"type": "str"},
            "known": {"type": "list", "elements": "str", "default": []},
            "evidence": {"type": "dict"},
            "rescan": {"type": "str", "choices": list(RESCANS), "default": "port"},
            "ports": {"type": "list", "elements": "str", "default": []},
            "driver": {"type": "str"},
            "force": {"type": "bool", "default": False},
            "event_timeout": {"type": "float", "default": 2.0},
            "timeout": {"type": "float", "default": 30.0},
            "node": {"type": "str"},
            "system_uuid": {"type": "str"},
            "root": {"type": "path", "default": "/"},
        },
        required_if=[("state", "absent", ("device", "uid"), True)],
        supports_check_mode=True)
    try:
        task = Task(module.params, module.check_mode)
    except BadOption as error:
        module.fail_json(msg=str(error), error="BadOption")
    try:
        result = task.work()
    except (machine.OtherMachine, machine.Busy) as error:
        module.fail_json(msg=str(error), error=type(error).__name__)
    except (NodeTrouble, NotProven, pci.UnknownDevice, BadOption) as error:
        module.fail_json(**task.failed(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
