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


def read(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    """Let Ansible read shipped playbooks."""
    (folder / "inventory").write_text("localhost ansible_connection=local\n[gpu_nodes]\nworker-1\n", encoding="utf-8")
    command = [str(Path(sys.executable).parent / "ansible-playbook"), *(f"composable.infra.{name}" for name in names),
               "--syntax-check", "-i", "inventory"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                          env=environment(folder, ANSIBLE_STDOUT_CALLBACK="default"))


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What one run for all playbooks printed. Empty if it failed: then each test reads its playbook alone."""
    done = read(tmp_path_factory.mktemp("all"), *NAMES)
    return done.stdout if done.returncode == 0 else ""


@pytest.mark.parametrize("name", NAMES)
def test_playbook_is_found_and_read(name: str, together: str, tmp_path: Path) -> None:
    if together:
        assert f"/playbooks/{name}.yml\n" in together
        return
    done = read(tmp_path, name)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_playbooks_that_people_look_for_are_there() -> None:
    assert {"bootstrap", "preflight", "verify", "attach", "detach", "plan", "report", "drain_and_detach", "upgrade",
            "uninstall", "images", "conformance"} <= set(NAMES)
