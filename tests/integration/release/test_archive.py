# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive has what users need, and no more. A plain Python builds it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tools.gates import build as gate

# Bytes of all files. Usage, history, ProvisioningRequests and pictures took it beyond 5,000,000.
LIMIT = 5_300_000
# The entries of the archive. Whoever adds one decides that users need it.
ENTRIES = {
    ".ansible-lint", ".yamllint", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md",
    "COPYING", "Containerfile", "FILES.json", "MANIFEST.json", "README.md", "SECURITY.md",
    "bindep.txt", "changelogs", "controller", "decision-environment.yml", "deploy", "docs",
    "emulator", "examples", "execution-environment.yml", "extensions", "inventories", "lab",
    "meta", "playbooks", "plugins", "requirements", "requirements.txt", "roles", "tests",
}


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> list[tarfile.TarInfo]:
    """Members of an archive that a Python without packages built."""
    folder = tmp_path_factory.mktemp("archive")
    plain = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    subprocess.run([plain, "-S", "-m", "tools.gates.build", "--into", folder], cwd=ROOT, check=True)
    (archive,) = folder.iterdir()
    with tarfile.open(archive) as opened:
        return opened.getmembers()


def test_unpacked_size(members: list[tarfile.TarInfo]) -> None:
    assert sum(member.size for member in members) <= LIMIT


def test_entries(members: list[tarfile.TarInfo]) -> None:
    assert {member.name.split("/")[0] for member in members} == ENTRIES


def test_of_the_tests_only_the_integration_targets(members: list[tarfile.TarInfo]) -> None:
    targets = "tests/integration/targets"
    expected = ("tests/integration", "tests/integration/requirements.txt", "tests/config.yml")
    names = {member.name for member in members if member.name.startswith("tests/")}
    assert {name for name in names if name not in expected and not name.startswith(targets)} == set()


def test_requirements_are_those_of_users(members: list[tarfile.TarInfo]) -> None:
    names = {member.name for member in members if member.name.startswith("requirements/")}
    assert names == {"requirements/image.txt", "requirements/runtime.txt"}


def test_what_is_shipped_names_nothing_that_is_not(members: list[tarfile.TarInfo]) -> None:
    left_out = [f"ansible_collections.composable.infra.{name}" for name in ("tests", "tools", "lab.demo",
                                                                            "lab.autoscaling")]
    sources = [ROOT / member.name for member in members if member.isfile()
               and member.name.endswith((".py", ".yml", ".yaml", ".j2", ".sh", ".txt"))]
    assert len(sources) > 500
    assert [str(path) for path in sources for name in left_out
            if name in path.read_text(encoding="utf-8")] == []


def test_without_ansible_galaxy_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gate, "BIN", tmp_path)
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", "")
    (tmp_path / "dist").mkdir()
    assert gate.main(["--into", str(tmp_path / "dist")]) == 1
    assert capsys.readouterr().err == f"{gate.MISSING}\n"
    assert (tmp_path / "dist").is_dir()
