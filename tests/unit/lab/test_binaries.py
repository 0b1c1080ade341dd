# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where binaries come from: the order, the version check, the cache, and what is said when nothing helps."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.binaries import downloads, finder, gobuild
from ansible_collections.composable.infra.lab.binaries.cache import BinaryCache
from ansible_collections.composable.infra.lab.binaries.releases import COMPONENTS, KUBERNETES_COMPONENTS, RELEASES
from ansible_collections.composable.infra.lab.errors import LabError

RELEASE = RELEASES["1.36"]


def program(folder: Path, component: str, version: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / component
    path.write_text(f"#!/bin/sh\necho {component} version v{version}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No internet, no Go, nothing on PATH; what was asked for is noted."""
    asked: list[str] = []

    def fetch(component: str, version: str, folder: Path) -> Path:
        asked.append(component)
        raise downloads.NoInternet("no such host")

    monkeypatch.setattr(downloads, "fetch", fetch)
    monkeypatch.setattr(gobuild, "find_go", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv(finder.FOLDER_VARIABLE, raising=False)
    return asked


@pytest.mark.parametrize(
    ("component", "version", "fits"),
    [
        ("kube-apiserver", "1.36.0", True),
        ("kube-apiserver", "1.35.9", False),
        ("kube-apiserver", "1.37.0", False),
        ("etcd", "3.6.0", True),
        ("etcd", "3.7.1", True),
        ("etcd", "3.4.23", False),
        ("etcd", "4.0.0", False),
        ("kwok", "0.7.0", False),
        ("kwok", None, False),
        ("kubelet", "1.36.1", True),
        ("kubelet", "1.35.4", False),
        ("runc", "1.1.5", True),
        ("runc", "1.0.3", False),
        ("containerd", "1.7.24", False),
        ("containerd", "2.4.0", True),
    ],
)
def test_acceptable_versions(component: str, version: str | None, fits: bool) -> None:
    assert finder.acceptable(RELEASE, component, version) is fits


def test_version_is_read_from_the_program(tmp_path: Path) -> None:
    assert finder.version_of(program(tmp_path, "etcd", "3.6.8")) == "3.6.8"
    assert finder.version_of(tmp_path / "absent") is None
    (tmp_path / "etcd").write_text("not a program")
    assert finder.version_of(tmp_path / "etcd") is None


def test_named_folder_comes_first(tmp_path: Path, offline: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for component in COMPONENTS:
        program(tmp_path / "named", component, RELEASE.version_of(component))
    on_path = program(tmp_path / "path", "etcd", RELEASE.etcd)
    monkeypatch.setattr(shutil, "which", lambda name: str(on_path) if name == "etcd" else None)
    monkeypatch.setenv(finder.FOLDER_VARIABLE, str(tmp_path / "named"))
    found = finder.find_binaries(RELEASE, cache=BinaryCache(tmp_path / "cache"))
    assert found == {component: tmp_path / "named" / component for component in COMPONENTS}
    assert not offline


def test_named_folder_with_another_release_is_refused(tmp_path: Path, offline: list[str]) -> None:
    program(tmp_path, "kube-scheduler", "1.35.0")
    with pytest.raises(LabError, match=r"kube-scheduler is version 1\.35\.0, but .* needs kube-scheduler 1\.36\.3"):
        finder.find_binaries(RELEASE, tmp_path)


def test_named_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="does not exist"):
        finder.from_folder(RELEASE, tmp_path / "absent")


def test_path_gives_the_kubernetes_binaries_only_as_one_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {name: program(tmp_path, name, "1.36.1") for name in KUBERNETES_COMPONENTS}
    paths["kwok"] = program(tmp_path, "kwok", "0.8.0")
    monkeypatch.setattr(shutil, "which", lambda name: str(paths[name]) if name in paths else None)
    assert set(finder.from_path(RELEASE)) == {*KUBERNETES_COMPONENTS, "kwok"}
    program(tmp_path, "kube-scheduler", "1.36.2")
    assert set(finder.from_path(RELEASE)) == {"kwok"}
    del paths["kube-scheduler"]
    assert set(finder.from_path(RELEASE)) == {"kwok"}


def test_cache_is_used_before_anything_is_fetched(tmp_path: Path, offline: list[str]) -> None:
    cache = BinaryCache(tmp_path / "cache")
    for component in COMPONENTS:
        version = RELEASE.version_of(component)
        cache.install(component, version, program(tmp_path / "made", component, version))
    found = finder.find_binaries(RELEASE, cache=cache)
    assert found["etcd"] == tmp_path / "cache" / "bin" / f"etcd-{RELEASE.etcd}" / "etcd"
    assert not offline


def test_downloads_fill_the_cache(tmp_path: Path, offline: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "fetch", lambda component, version, folder: program(folder, component, version))
    lines: list[str] = []
    cache = BinaryCache(tmp_path / "cache")
    found = finder.find_binaries(RELEASE, progress=lines.append, cache=cache)
    assert all(path.is_file() for path in found.values())
    assert sum("checksum verified" in line for line in lines) == len(COMPONENTS)
    assert list((tmp_path / "cache" / "scratch").iterdir()) == []


def test_without_internet_the_host_is_asked_once_and_go_builds(
    tmp_path: Path, offline: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []

    def build(go: str, release: object, component: str, folder: Path, tell: object) -> dict[str, Path]:
        built.append(component)
        names = KUBERNETES_COMPONENTS if component.startswith("kube-") else (component,)
        return {name: program(folder, name, "1.36.3") for name in names}

    monkeypatch.setattr(gobuild, "find_go", lambda: "go")
    monkeypatch.setattr(gobuild, "build", build)
    found = finder.find_binaries(RELEASE, cache=BinaryCache(tmp_path / "cache"))
    assert set(found) == set(COMPONENTS)
    assert offline == ["etcd"]
    assert built == ["etcd", "kube-apiserver", "kwok"]


def test_neither_internet_nor_go_names_what_is_missing(tmp_path: Path, offline: list[str]) -> None:
    with pytest.raises(LabError) as caught:
        finder.find_binaries(RELEASE, cache=BinaryCache(tmp_path))
    text = str(caught.value)
    assert text.startswith("etcd 3.")
    assert "no such host" in text
    assert "Install Go 1.26.0 or later" in text
    assert finder.FOLDER_VARIABLE in text


def test_failed_build_is_part_of_the_explanation(
    tmp_path: Path, offline: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*arguments: object) -> dict[str, Path]:
        raise LabError("go build failed: disk full")

    monkeypatch.setattr(gobuild, "find_go", lambda: "go")
    monkeypatch.setattr(gobuild, "build", build)
    with pytest.raises(LabError, match="disk full"):
        finder.find_binaries(RELEASE, cache=BinaryCache(tmp_path))


def test_first_of_two_installs_wins_and_nothing_is_left_over(tmp_path: Path) -> None:
    cache = BinaryCache(tmp_path / "cache")
    first = cache.install("kwok", "0.8.0", program(tmp_path / "a", "kwok", "0.8.0"))
    content = first.read_text()
    second = program(tmp_path / "b", "kwok", "0.9.9")
    assert cache.install("kwok", "0.8.0", second) == first
    assert first.read_text() == content
    assert cache.find("kwok", "0.8.0") == first
    assert cache.find("kwok", "0.8.1") is None
    assert list((cache.root / "scratch").iterdir()) == []


def test_second_user_waits_for_the_lock_and_is_told(tmp_path: Path) -> None:
    cache, order = BinaryCache(tmp_path), []
    inside = threading.Event()

    def holder() -> None:
        with cache.lock() as waited:
            inside.set()
            time.sleep(0.1)
            order.append(("holder", waited))

    thread = threading.Thread(target=holder)
    thread.start()
    assert inside.wait(5)
    with BinaryCache(tmp_path).lock() as waited:
        order.append(("second", waited))
    thread.join()
    assert order == [("holder", False), ("second", True)]
