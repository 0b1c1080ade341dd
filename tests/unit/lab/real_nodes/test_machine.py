# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control groups, kernel settings and what a machine lacks: on folders shaped like the kernel's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.binaries import gobuild, node_programs
from ansible_collections.composable.infra.lab.binaries.cache import BinaryCache
from ansible_collections.composable.infra.lab.binaries.releases import RELEASES
from ansible_collections.composable.infra.lab.real_nodes import cgroups, requirements, sysctls


def hierarchy(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").touch()
    return folder


def test_every_hierarchy_of_version_1_gets_a_group_that_may_run_somewhere(tmp_path: Path) -> None:
    cpuset, pids = hierarchy(tmp_path / "cpuset"), hierarchy(tmp_path / "pids")
    for folder in (cpuset, cpuset / "g", cpuset / "g" / "programs"):
        folder.mkdir(exist_ok=True)
        (folder / "cpuset.cpus").write_text("")
        (folder / "cpuset.mems").write_text("")
    (cpuset / "cpuset.cpus").write_text("0-1")
    (cpuset / "cpuset.mems").write_text("0")
    cgroups.create("g", tmp_path)
    assert (cpuset / "g" / "programs" / "cpuset.cpus").read_text() == "0-1"
    assert (cpuset / "g" / "cpuset.mems").read_text() == "0"
    assert cgroups.joins("g", tmp_path) == [f"{tmp_path}/{c}/g/programs/cgroup.procs" for c in ("cpuset", "pids")]
    assert (pids / "g" / "programs").is_dir()
    assert cgroups.controllers(tmp_path) == {"cpuset", "pids"}


def test_version_2_is_one_hierarchy(tmp_path: Path) -> None:
    hierarchy(tmp_path / "root")
    hierarchy(tmp_path / "root" / "system.slice")
    (tmp_path / "root" / "cgroup.controllers").write_text("cpu memory pids\n")
    (tmp_path / "root" / "g").mkdir()
    cgroups.create("g", tmp_path / "root")
    for folder in (tmp_path / "root", tmp_path / "root" / "g"):
        # A plain file keeps the last write only; the kernel's adds each of them.
        assert (folder / "cgroup.subtree_control").read_text() == "+pids"
    assert (tmp_path / "root" / "g" / "programs").is_dir()
    assert cgroups.hierarchies(tmp_path / "root") == [tmp_path / "root"]
    assert cgroups.controllers(tmp_path / "root") == {"cpu", "memory", "pids"}


def test_group_is_removed_with_what_lies_below(tmp_path: Path) -> None:
    root = hierarchy(tmp_path / "pids")
    cgroups.create("g", tmp_path)
    (root / "g" / "kubepods" / "burstable").mkdir(parents=True)
    (root / "other").mkdir()
    cgroups.remove("g", root=tmp_path)
    assert sorted(path.name for path in root.iterdir()) == ["cgroup.procs", "other"]


def test_members_of_all_groups_below_are_found(tmp_path: Path) -> None:
    for folder, members in ((tmp_path / "g", "12\n"), (tmp_path / "g" / "kubepods", "13\n14\n")):
        folder.mkdir()
        (folder / "cgroup.procs").write_text(members)
    assert cgroups.members([tmp_path / "g"]) == {12, 13, 14}


def test_settings_are_restored_where_they_differ(tmp_path: Path) -> None:
    for name, value in (("kernel/panic", "1"), ("net/ipv4/ip_forward", "0")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(value + "\n")
    before = sysctls.read(tmp_path)
    (tmp_path / "kernel/panic").write_text("10\n")
    sysctls.restore(before, tmp_path)
    assert before == {"kernel/panic": "1", "net/ipv4/ip_forward": "0"}
    assert (tmp_path / "kernel/panic").read_text() == "1"
    # Not written, since it did not differ.
    assert (tmp_path / "net/ipv4/ip_forward").read_text() == "0\n"


def test_ordinary_user_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert requirements.missing() == "real nodes cannot be started here: they need root"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda patch: patch.setattr(requirements, "_capabilities", lambda: 0), "root lacks CAP_NET_ADMIN"),
        (lambda patch: patch.setattr(shutil, "which", lambda name: None), "not on PATH are unshare, mount, ip"),
        (lambda patch: patch.setattr(cgroups, "hierarchies", list), "no control groups are mounted at /sys/fs/cgroup"),
        (lambda patch: patch.setattr(os, "access", lambda path, mode: False), "cannot be written"),
        (lambda patch: patch.setattr(cgroups, "controllers", lambda: {"cpu", "pids"}), "no controllers cpuset, memory"),
        (lambda patch: patch.setattr(requirements, "runc_trouble", lambda release: "there is no runc"), "no runc"),
    ],
)
def test_each_lack_has_its_sentence(
    change: Callable[[pytest.MonkeyPatch], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(requirements, "_capabilities", lambda: ~0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [Path("/")])
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    monkeypatch.setattr(cgroups, "controllers", lambda: {"cpu", "cpuset", "memory", "pids"})
    monkeypatch.setattr(requirements, "runc_trouble", lambda release: None)
    assert requirements.missing() is None
    change(monkeypatch)
    assert words in (requirements.missing() or "")


def test_runc_is_had_from_path_or_cache_or_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release, cache, paths = RELEASES["1.36"], BinaryCache(tmp_path), dict[str, str]()
    monkeypatch.setattr(shutil, "which", paths.get)
    monkeypatch.setattr(gobuild, "find_go", lambda: None)
    assert node_programs.runc_trouble(release, cache) == "there is no runc, and no go and no gcc to build it"
    monkeypatch.setattr(gobuild, "find_go", lambda: "go")
    assert node_programs.runc_trouble(release, cache) == "there is no runc, and no gcc to build it"
    paths["gcc"] = "/bin/gcc"
    assert node_programs.runc_trouble(release, cache) is None
    del paths["gcc"]
    program = tmp_path / "runc"
    program.write_text("#!/bin/sh\necho runc version 1.1.5+ds1\necho libseccomp: 2.5.4\n")
    program.chmod(0o755)
    paths["runc"] = str(program)
    assert node_programs.runc_trouble(release, cache) is None
    assert node_programs.filters_system_calls(program)
    program.write_text("#!/bin/sh\necho runc version 1.0.3\n")
    assert node_programs.runc_trouble(release, cache) == "there is no runc, and no gcc to build it"
    assert not node_programs.filters_system_calls(program)
