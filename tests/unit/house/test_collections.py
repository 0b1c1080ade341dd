# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collections that our roles call are fetched once, whole or not at all, and nothing else of their wheel stays."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tools.setup import collections, machine


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def wheel(folder: Path, *names: str) -> Path:
    """A wheel that holds collections, each with one file and a neighbour whose name begins alike."""
    path = folder / "ansible.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(f"ansible_collections/{name.replace('.', '/')}/README.md", name)
            archive.writestr(f"ansible_collections/{name.replace('.', '/')}_more/README.md", "a neighbour")
    return path


class TestCollections:
    def test_named_ones_are_unpacked_once_and_linked(
        self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fetched: list[Path] = []

        def download(_root: Path, into: Path) -> Path:
            fetched.append(into)
            return wheel(into, *collections.NAMES)

        monkeypatch.setattr(collections, "download", download)
        collections.provide(tmp_path)
        collections.provide(tmp_path)
        folder = tmp_path / ".venv/collections/ansible_collections"
        assert {name: (folder / name.replace(".", "/") / "README.md").read_text(encoding="utf-8")
                for name in collections.NAMES} == {name: name for name in collections.NAMES}
        assert not list(cache.rglob("*_more"))
        assert [path.exists() for path in fetched] == [False]

    def test_one_that_is_absent_is_fetched_alone(
        self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(collections, "download", lambda _root, into: wheel(into, *collections.NAMES))
        collections.provide(tmp_path)
        kept, gone = (collections.place(collections.home(), name) for name in collections.NAMES[:2])
        (kept / "README.md").write_text("kept", encoding="utf-8")
        shutil.rmtree(gone)
        collections.provide(tmp_path)
        assert (kept / "README.md").read_text(encoding="utf-8") == "kept"
        assert gone.is_dir()

    def test_a_wheel_without_one_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(machine.Missing, match=r"ansible\.whl does not hold the collection awx\.awx"):
            collections.unpack(wheel(tmp_path, "kubernetes.core"), tmp_path, ["awx.awx"])

    def test_pips_last_line_is_told(self, tmp_path: Path) -> None:
        python = tmp_path / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\necho Looking; echo ERROR: no route to the index >&2; exit 1\n", encoding="utf-8")
        python.chmod(0o755)
        with pytest.raises(machine.Missing, match="could not be downloaded: ERROR: no route to the index"):
            collections.download(tmp_path, tmp_path)

    def test_another_checkout_was_quicker(self, tmp_path: Path) -> None:
        for name in ("mine", "theirs"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "whose").write_text(name, encoding="utf-8")
        collections.put(tmp_path / "mine", tmp_path / "theirs")
        assert (tmp_path / "theirs" / "whose").read_text(encoding="utf-8") == "theirs"
        assert not (tmp_path / "mine").exists()
