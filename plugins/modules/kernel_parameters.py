#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Merge kernel parameters into those of a host, and remove them again."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_parameters
short_description: Merge kernel parameters into a host's boot loader, and take them out again
version_added: 0.1.0
description:
  - Adds parameters that the host's kernel command line lacks. Nothing that is there is overwritten, not by this module
    and not by its undoing.
  - The options of C(pci=) are merged one by one, so that C(pci=nomsi) and C(pci=realloc=on) become
    C(pci=nomsi,realloc=on).
  - The module records added parameters on the host, and O(state=absent) removes only these.
  - They take effect with the next boot. RV(pending) tells whether the running kernel lacks a
    parameter.
author:
  - composable.infra contributors (@composable-infra)
options:
  parameters:
    description: Parameters such as V(pci=realloc=on,hpbussize=8) or V(nomodeset). Needed for O(state=present).
    type: list
    elements: str
  state:
    description: Whether the parameters are there. V(absent) removes all that are recorded.
    type: str
    choices: [present, absent]
    default: present
  boot_loader:
    description:
      - V(grub) writes C(/etc/default/grub). Then the distribution's own command must make grub's configuration of it,
        such as C(update-grub) or C(grub2-mkconfig).
      - V(grubby) changes the boot entries of all kernels.
      - If not set, V(grubby) is used where this program is installed.
    type: str
    choices: [grub, grubby]
  record:
    description: File on the host that records the added parameters.
    type: path
    default: /etc/composable-infra/kernel-parameters.json
  backup:
    description: Whether C(/etc/default/grub) is kept beside the new one before it is written.
    type: bool
    default: true
  root:
    description: Folder that contains the host's C(/etc) and C(/proc). Only tests need another folder than the default.
    type: path
    default: /
attributes:
  check_mode:
    description: Reads, and returns the parameters that would be added or removed.
    support: full
  diff_mode:
    description: Returns C(/etc/default/grub), or the arguments that grubby shows, before and after.
    support: full
  platform:
    description: Runs on Linux hosts with grub.
    platforms: linux
    support: full
requirements:
  - python >= 3.8
notes:
  - Needs root.
"""

EXAMPLES = r"""
- name: Leave room for devices that are attached while the host runs
  composable.infra.kernel_parameters:
    parameters: ["pci=realloc=on,hpbussize=8,hpmmioprefsize=64G"]
  become: true
  register: boot

- name: Make grub's configuration
  ansible.builtin.command: update-grub
  become: true
  when: boot.changed

- name: Take them out again
  composable.infra.kernel_parameters:
    state: absent
  become: true
"""

RETURN = r"""
added:
  description: Parameters that were added, or would be, with the options of C(pci=) one by one.
  returned: success
  type: list
  elements: str
  sample: [pci=realloc=on, pci=hpbussize=8]
removed:
  description: Parameters that were removed, or would be.
  returned: success
  type: list
  elements: str
  sample: []
kept:
  description: Parameters that exist with another value and stay.
  returned: success
  type: list
  elements: str
  sample: [pci=hpbussize=4]
pending:
  description: Requested parameters that the running kernel lacks. If there is any, a reboot is
    required.
  returned: success
  type: list
  elements: str
  sample: [pci=realloc=on]
backup_file:
  description: Path of the copy that was kept.
  returned: when C(/etc/default/grub) was written and O(backup) is true
  type: str
  sample: /etc/default/grub.4711.2026-11-23@08:00:00~
"""

import os
import tempfile
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.composable.infra.plugins.module_utils.host import parameters
from ansible_collections.composable.infra.plugins.module_utils.host.boot_loader import Grub, Grubby, Record, Unreadable

SPEC: dict[str, t.Any] = {
    "argument_spec": {
        "parameters": {"type": "list", "elements": "str"},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "boot_loader": {"type": "str", "choices": ["grub", "grubby"]},
        "record": {"type": "path", "default": "/etc/composable-infra/kernel-parameters.json"},
        "backup": {"type": "bool", "default": True},
        "root": {"type": "path", "default": "/"},
    },
    "required_if": [("state", "present", ("parameters",))],
    "supports_check_mode": True,
}


class Task:
    """One task on this host."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module, self.root = module, Path(module.params["root"])
        self.loader = self._boot_loader(module.params["boot_loader"])
        self.record = Record(self._below(module.params["record"]), self._write)
        self.backup_file = ""

    def work(self) -> dict[str, t.Any]:
        """Add or remove the parameters. Return the result of the module. Raise Unreadable."""
        before = self.loader.read()
        present = self.module.params["state"] == "present"
        result = self._present(before) if present else self._absent(before)
        after = result.pop("text")
        if after != before and not self.module.check_mode:
            self._write_loader(before, after)
        if not self.module.check_mode:
            self._remember(result, present)
        diff = {"before": before, "after": after, "before_header": self.loader.where, "after_header": self.loader.where}
        return dict(result, diff=diff, **({"backup_file": self.backup_file} if self.backup_file else {}))

    def _present(self, before: str) -> dict[str, t.Any]:
        wanted = self.module.params["parameters"]
        done = self.loader.merged(before, wanted)
        return {"changed": bool(done["added"]), "text": done["text"] if done["added"] else before,
                "added": done["added"], "removed": [], "kept": done["kept"],
                "pending": parameters.missing(self._running(), wanted)}

    def _absent(self, before: str) -> dict[str, t.Any]:
        recorded = self.record.read()
        after = self.loader.without(before, recorded) if recorded else before
        return {"changed": after != before or self.record.path.exists(), "text": after, "added": [],
                "removed": recorded, "kept": [], "pending": []}

    def _running(self) -> str:
        try:
            return (self.root / "proc/cmdline").read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unreadable(f"{self.root / 'proc/cmdline'} cannot be read: {error}") from None

    def _remember(self, result: dict[str, t.Any], present: bool) -> None:
        if result["added"]:
            self.record.add(result["added"])
        elif not present and self.record.path.exists():
            self.record.path.unlink()

    def _boot_loader(self, wanted: str | None) -> t.Any:
        if (wanted or ("grubby" if self.module.get_bin_path("grubby") else "grub")) == "grubby":
            return Grubby(self.module.run_command)
        return Grub(self.root / "etc/default/grub", self._write)

    def _below(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def _write_loader(self, before: str, after: str) -> None:
        grub = self.root / "etc/default/grub"
        if isinstance(self.loader, Grub) and self.module.params["backup"]:
            self.backup_file = self.module.backup_local(str(grub))
        self.loader.write(before, after)

    def _write(self, path: Path, text: str) -> None:
        """Replace a file atomically."""
        handle, new = tempfile.mkstemp(dir=self.module.tmpdir)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        self.module.atomic_move(new, str(path))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(**SPEC)
    try:
        result = Task(module).work()
    except Unreadable as error:
        module.fail_json(msg=str(error), error="Unreadable")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
