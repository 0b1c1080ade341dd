# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gates look at the right files and cannot pass without having looked."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tools.gates import importer, other_core, sanity, workspace


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git checkout with one ignored, one tracked and one new file, and room for the copy."""
    root = tmp_path / "checkout"
    root.mkdir()
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    for name in (".gitignore", "tracked.py", "new.py", "ignored.log", "plugins/deep.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("*.log\n.cache/\n", encoding="utf-8")
    subprocess.run(["git", "add", ".gitignore", "tracked.py"], cwd=root, check=True)
    monkeypatch.setattr(workspace, "ROOT", root)
    monkeypatch.setattr(workspace, "CACHE", root / ".cache")
    monkeypatch.setattr(workspace, "SOURCES", root / ".cache" / "copy")
    return root


class TestSources:
    def test_what_git_knows_is_copied(self, checkout: Path) -> None:
        assert held(workspace.sources()) == {".gitignore", "tracked.py", "new.py", "plugins/deep.py"}

    def test_a_deleted_file_leaves_the_copy(self, checkout: Path) -> None:
        workspace.sources()
        (checkout / "tracked.py").unlink()
        (checkout / "new.py").unlink()
        assert held(workspace.sources()) == {".gitignore", "plugins/deep.py"}

    def test_a_file_that_is_now_ignored_leaves_the_copy(self, checkout: Path) -> None:
        workspace.sources()
        (checkout / ".gitignore").write_text("*.log\n.cache/\nnew.py\n", encoding="utf-8")
        assert "new.py" not in held(workspace.sources())

    def test_a_change_of_the_same_size_is_copied(self, checkout: Path) -> None:
        copy = workspace.sources() / "new.py"
        old = (checkout / "new.py").read_text(encoding="utf-8")
        (checkout / "new.py").write_text(old[::-1], encoding="utf-8")
        os.utime(checkout / "new.py", ns=(5, 5))
        workspace.sources()
        assert copy.read_text(encoding="utf-8") == old[::-1]

    def test_a_change_of_mode_is_copied(self, checkout: Path) -> None:
        copy = workspace.sources() / "new.py"
        (checkout / "new.py").chmod(0o755)
        workspace.sources()
        assert os.access(copy, os.X_OK)

    def test_an_equal_file_is_not_written_again(self, checkout: Path) -> None:
        copy = workspace.sources() / "new.py"
        inode = copy.stat().st_ino
        before = copy.stat().st_ctime_ns
        workspace.sources()
        assert (copy.stat().st_ino, copy.stat().st_ctime_ns) == (inode, before)

    def test_tools_that_ask_git_find_the_copy_itself(self, checkout: Path) -> None:
        folder = workspace.sources()
        top = subprocess.run(["git", "rev-parse", "--show-toplevel"], cwd=folder, check=True, capture_output=True,
                             text=True).stdout.strip()
        assert Path(top).samefile(folder)


def held(folder: Path) -> set[str]:
    """Files of the copy, without its repository."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")
            if path.is_file() and ".git" not in path.relative_to(folder).parts}


class TestImporter:
    def test_a_clean_log_has_no_faults(self) -> None:
        assert importer.faults_in(f"INFO: Getting doc strings\nINFO: {importer.DONE}") == []

    @pytest.mark.parametrize("line", ["WARNING: no README", "ERROR: it failed", "CRITICAL: x", "Traceback (most"])
    def test_a_fault_is_found_though_it_finished(self, line: str) -> None:
        assert importer.faults_in(f"INFO: a\n{line}\nINFO: {importer.DONE}") == [line]

    def test_silence_is_a_fault(self) -> None:
        assert importer.faults_in("") == ["it did not finish"]


class TestPipSettings:
    def test_files_and_environment_become_one_file(self) -> None:
        listing = "global.index-url='https://a.example/simple'\n:env:.cert='/etc/ca.pem'\ninstall.no-binary=':none:'"
        assert sanity.pip_settings(listing, "/var/pip").splitlines() == [
            "[global]", "cache-dir = /var/pip", "index-url = https://a.example/simple", "cert = /etc/ca.pem",
            "[install]", "no-binary = :none:"]

    def test_the_environment_wins(self) -> None:
        assert "timeout = 9" in sanity.pip_settings("global.timeout='1'\n:env:.timeout='9'", "")

    def test_several_lines_stay_one_value(self) -> None:
        text = sanity.pip_settings("global.find-links='\\n/a\\n/b'", "")
        assert text == "[global]\nfind-links = \n    /a\n    /b\n"

    def test_nothing_set_is_an_empty_file(self) -> None:
        assert sanity.pip_settings("", "") == ""

    def test_only_the_user_can_read_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sanity, "pip", lambda *_arguments: "")
        sanity.prepare(tmp_path)
        assert (tmp_path / ".config" / "pip" / "pip.conf").stat().st_mode & 0o077 == 0


def test_the_pip_that_ansible_test_looks_for_is_the_one_put_there() -> None:
    spec = importlib.util.find_spec("ansible_test")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).parent / "_internal" / "python_requirements.py"
    versions = [name.removeprefix("get_pip_").removesuffix(".py").replace("_", ".") for name in sanity.BOOTSTRAP_NAMES]
    wanted = set(re.findall(r"pip='([0-9.]+)'", source.read_text(encoding="utf-8")))
    assert wanted
    assert wanted <= set(versions)


def test_core_that_cannot_be_had_is_one_sentence_and_leaves_nothing(tmp_path: Path,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_core, "PYTHONS", ())
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(other_core.NoSuchCore, match=r"ansible-core 2\.0 cannot be installed for any of"):
        other_core.programs(tmp_path, "2.0")
    assert [path.name for path in tmp_path.iterdir()] == ["2.0.lock"]


def test_what_is_beside_another_core_has_the_version_of_ours() -> None:
    (line,) = other_core.beside()
    assert line == f"jmespath=={importlib.metadata.version('jmespath')}"


def test_its_programs_are_said_and_what_cannot_be_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    there = tmp_path / "composable-infra" / "ansible-core" / "2.16" / "bin"
    there.mkdir(parents=True)
    (there / "ansible-test").touch()
    assert other_core.main("2.16") == 0
    assert capsys.readouterr().out == f"{there}\n"
    monkeypatch.setattr(other_core, "PYTHONS", ())
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert other_core.main("2.0") == 1
    assert capsys.readouterr().err.startswith("ansible-core 2.0 cannot be installed")


def test_oldest_core_is_the_one_that_certification_asks_for() -> None:
    """Source: docs.ansible.com/projects/partner-certification-requirements, "ansible core compatibility"."""
    runtime = yaml.safe_load((workspace.ROOT / "meta/runtime.yml").read_text(encoding="utf-8"))
    assert runtime["requires_ansible"] == ">=2.16.0"
    roles = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in workspace.ROOT.glob("roles/*/meta/main.yml")]
    assert {meta["galaxy_info"]["min_ansible_version"] for meta in roles} == {"2.16"}
