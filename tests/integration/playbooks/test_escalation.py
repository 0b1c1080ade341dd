# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What works on a host is escalated there, and what works on localhost is not.

A stand-in for sudo writes its calls down and runs the command as who it is: whether a user without rights succeeds with
the real sudo cannot be shown here.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.e2e.support.played import Json, play, well
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

STAND_INS = ROOT / "extensions" / "molecule" / "node_prepare" / "stand_ins"
SUDO = """#!/bin/sh
echo "$*" >> "$(dirname "$0")/sudo_calls"
while [ "$1" != /bin/sh ]; do shift; done
exec "$@"
"""
FILES = {"proc/cmdline": "BOOT_IMAGE=/vmlinuz quiet\n", "proc/modules": "",
         "run/nvidia-persistenced/nvidia-persistenced.pid": "4711\n", "arguments": "quiet",
         "etc/default/grub": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n'}
# one is enough: how tasks get there is the same for all, and each module costs time
SYSTEMS = {"rhel": 'ID="rhel"\nVERSION_ID="9.6"\n'}
# what only the control node does, whoever it is for
INWARD = {"set_fact", "include_tasks", "include_role", "import_tasks", "assert", "debug", "meta", "fail",
          "validate_argument_spec"}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root folder for a host of each system, with stand-ins for its commands."""
    folder = tmp_path_factory.mktemp("hosts")
    for system, release in SYSTEMS.items():
        root = folder / system
        shutil.copytree(STAND_INS, root / "bin")
        (root / "bin" / "sudo").write_text(SUDO, encoding="utf-8")
        for command in (root / "bin").iterdir():
            command.chmod(0o755)
        for name in ("etc/modprobe.d", "etc/systemd/system", "sys/module/nvidia_drm/parameters"):
            (root / name).mkdir(parents=True)
        for name, text in {**FILES, "etc/os-release": release}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
    return folder


def applied(folder: Path, hosts: Path, state: str) -> list[Json]:
    """The tasks that ran when the role was applied to all hosts, as Ansible has resolved them."""
    seen = folder / "seen"
    members = {system: {"ansible_connection": "local", "ansible_become_exe": str(hosts / system / "bin" / "sudo"),
                        "node_prepare_root": str(hosts / system)} for system in SYSTEMS}
    (folder / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": members}}), encoding="utf-8")
    path = "{{ node_prepare_root }}/bin:" + os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    book = [{"name": "Prepare", "hosts": "all", "gather_facts": False, "environment": {"PATH": path},
             "roles": ["composable.infra.node_prepare"]}]
    given = {"node_prepare_state": state, "node_prepare_kernel_parameters": ["pci=realloc=on"]}
    well(play(folder, book, given, "-i", str(folder / "inventory.yml"), ANSIBLE_BECOME_ALLOW_SAME_USER="true",
              ANSIBLE_CALLBACK_PLUGINS=str(Path(__file__).parent / "callbacks"), EFFECTIVE_BECOME=str(seen),
              ANSIBLE_CALLBACKS_ENABLED="effective_become"))
    found: list[Json] = [json.loads(line) for line in seen.read_text(encoding="utf-8").splitlines()]
    return [task for task in found if task["action"].rpartition(".")[2] not in INWARD]


# in this order: what was done is taken back
@pytest.mark.parametrize("state", ["present", "absent"])
def test_every_task_on_a_host_is_escalated(tmp_path: Path, hosts: Path, state: str) -> None:
    ran = applied(tmp_path, hosts, state)
    assert [(task["host"], task["task"]) for task in ran if task["become"] is not True] == []
    for system in SYSTEMS:
        calls = hosts / system / "bin" / "sudo_calls"
        mine = [task for task in ran if task["host"] == system]
        assert len(mine) > 5
        assert len(calls.read_text(encoding="utf-8").splitlines()) >= len(mine)
        calls.unlink()
