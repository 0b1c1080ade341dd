# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the lab gets the controllers of Cluster API: built once, with the parts of their release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.binaries import cluster_api, gobuild
from ansible_collections.composable.infra.lab.binaries.cache import BinaryCache
from ansible_collections.composable.infra.lab.errors import LabError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BinaryCache:
    """An empty cache, which the module uses."""
    found = BinaryCache(tmp_path / "cache")
    monkeypatch.setattr(cluster_api, "BinaryCache", lambda: found)
    return found


def test_the_module_is_built_once_and_kept(cache: BinaryCache, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[gobuild.Recipe] = []

    def build(_go: str, what: gobuild.Recipe, folder: Path, tell: Callable[[str], None]) -> dict[str, Path]:
        built.append(what)
        folder.mkdir()
        (folder / cluster_api.NAME).write_text("program", encoding="utf-8")
        return {cluster_api.NAME: folder / cluster_api.NAME}

    monkeypatch.setattr(gobuild, "find_go", lambda: "go")
    monkeypatch.setattr(gobuild, "build_recipe", build)
    first = cluster_api.find_manager()
    assert cluster_api.find_manager() == first == cache.path(cluster_api.NAME, cluster_api.VERSION)
    assert built == [cluster_api.RECIPE]


def test_without_go_it_says_what_is_missing(cache: BinaryCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gobuild, "find_go", lambda: None)
    with pytest.raises(LabError, match="is not in the lab's cache, and there is no go command"):
        cluster_api.find_manager()


def test_the_part_that_its_go_mod_has_in_a_folder_is_that_of_the_release() -> None:
    text = gobuild.consumer_go_mod(cluster_api.RECIPE, [])
    part = f"{cluster_api.MODULE}/api"
    assert f"\t{part} => {part} v{cluster_api.VERSION}\n" in text
