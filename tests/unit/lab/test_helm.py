# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helm is taken from PATH when it fits, else from the cache, else built once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.binaries import gobuild, helm
from ansible_collections.composable.infra.lab.binaries.cache import BinaryCache
from ansible_collections.composable.infra.lab.errors import LabError


def program(folder: Path, says: str) -> Path:
    """A program named helm that prints a version."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "helm"
    path.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
    path.chmod(0o755)
    return path


class Builder:
    """Counts what it builds."""

    def __init__(self) -> None:
        self.built: list[gobuild.Recipe] = []

    def __call__(self, go: str, what: gobuild.Recipe, folder: Path, staging: str, tell: object) -> dict[str, Path]:
        self.built.append(what)
        return {"helm": program(folder, f"v{what.version}")}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BinaryCache:
    """An empty cache, and a PATH with nothing but a shell's tools."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}{os.pathsep}/bin{os.pathsep}/usr/bin")
    monkeypatch.setattr(gobuild, "find_go", lambda: "go")
    return BinaryCache(tmp_path / "cache")


def test_helm_3_on_path_is_taken(cache: BinaryCache, tmp_path: Path) -> None:
    found = program(tmp_path / "path", "v3.17.1+g980d8ac")
    builder = Builder()
    assert helm.find_helm(cache, builder=builder) == found
    assert builder.built == []


@pytest.mark.parametrize("says", ["v4.1.0", "v2.17.0", "nothing"])
def test_another_major_version_is_not(cache: BinaryCache, tmp_path: Path, says: str) -> None:
    program(tmp_path / "path", says)
    assert helm.find_helm(cache, builder=Builder()) == cache.path("helm", helm.VERSION)


def test_it_is_built_once(cache: BinaryCache) -> None:
    builder, told = Builder(), list[str]()
    first = helm.find_helm(cache, told.append, builder)
    assert helm.find_helm(cache, told.append, builder) == first
    assert builder.built == [helm.RECIPE]
    assert told == [f"building helm {helm.VERSION} from its Go module ({helm.RECIPE.typically}, once)"]
    assert helm.version_of(first) == (3, 20)


def test_without_go_it_says_what_is_missing(cache: BinaryCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gobuild, "find_go", lambda: None)
    with pytest.raises(LabError, match=r"helm 3\.\d+\.\d+ is neither on PATH nor in .*, and there is no go command"):
        helm.find_helm(cache, builder=Builder())


def test_a_link_is_put_into_the_folder_and_put_again(cache: BinaryCache, tmp_path: Path) -> None:
    target = program(tmp_path / "path", "v3.17.1")
    for _round in range(2):
        assert helm.main([str(tmp_path)]) == 0
        assert (tmp_path / "helm").resolve() == target


def test_a_link_to_itself_is_left(cache: BinaryCache, tmp_path: Path) -> None:
    target = program(tmp_path / "path", "v3.17.1")
    assert helm.main([str(tmp_path / "path")]) == 0
    assert target.is_file()


def test_the_recipe_tells_helm_its_version() -> None:
    assert f"version.version=v{helm.VERSION}" in helm.RECIPE.ldflags
    assert f"require helm.sh/helm/v3 v{helm.VERSION}" in gobuild.consumer_go_mod(helm.RECIPE, [])
