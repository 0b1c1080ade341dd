# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every shipped playbook is found by its full name and can be read by Ansible with all that it imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.e2e.support.played import environment
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

NAMES = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml"))


@pytest.mark.parametrize("name", NAMES)
def test_playbook_is_found_and_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "inventory").write_text("localhost ansible_connection=local\n[gpu_nodes]\nworker-1\n", encoding="utf-8")
    command = [str(Path(sys.executable).parent / "ansible-playbook"), f"composable.infra.{name}", "--syntax-check",
               "-i", "inventory"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False,
                          env=environment(tmp_path, ANSIBLE_STDOUT_CALLBACK="default"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_playbooks_that_people_look_for_are_there() -> None:
    assert {"bootstrap", "preflight", "verify", "attach", "detach", "plan", "report", "drain_and_detach", "upgrade",
            "uninstall", "images", "conformance"} <= set(NAMES)
