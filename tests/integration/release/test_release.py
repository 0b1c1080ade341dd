# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A release can be tried: archive with change log and pages, release notes; the checkout stays as it was."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tools import release
from ansible_collections.composable.infra.tools.address import current


def status() -> str:
    return subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_a_dry_run_makes_everything_and_changes_nothing(tmp_path: Path) -> None:
    before, version = status(), release.agreed("")
    assert release.main(["--into", str(tmp_path / "dist"), "--without-docs"]) == 0
    notes = (tmp_path / "dist" / "release-notes.md").read_text(encoding="utf-8")
    assert "### Minor Changes" in notes
    with tarfile.open(tmp_path / "dist" / f"composable-infra-{version}.tar.gz") as archive:
        names = set(archive.getnames())
        log = archive.extractfile("CHANGELOG.md")
        assert log is not None
        assert notes in log.read().decode("utf-8")
        readme = archive.extractfile("README.md")
        assert readme is not None
        assert f"]({current()}/blob/main/docs/quickstart.md)" in readme.read().decode("utf-8")
    assert {"README.md", "docs/quickstart.md", "docs/docsite/extra-docs.yml",
            "examples/site/hosts.yml"} <= names
    assert {name for name in names if name.startswith((".", "dist"))} <= {".ansible-lint", ".yamllint"}
    assert status() == before


def test_a_tag_of_another_version_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release.main(["--into", str(tmp_path / "dist"), "--version", "9.9.9"]) == 1
    assert capsys.readouterr().err.startswith("release: VERSION: '9.9.9' is not the version of galaxy.yml")
    assert not (tmp_path / "dist").exists()


def test_a_release_with_a_placeholder_for_its_address_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "current", lambda: "https://example.com/project")
    assert release.main(["--into", str(tmp_path / "dist"), "--version", release.agreed("")]) == 1
    assert capsys.readouterr().err.startswith("release: repository in galaxy.yml: https://example.com/project "
                                              "is a placeholder. Run make address URL=https://")
    assert not (tmp_path / "dist").exists()


def test_without_a_builder_it_says_that_the_image_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setenv("PATH", "")
    release.image("1.0.0", told.append)
    assert told == ["release: the image is left out, because neither podman nor buildah is on PATH"]


def test_notes_are_those_of_one_version() -> None:
    log = '# T\n\n<a id="v1-1-0"></a>\n## v1\\.1\\.0\n\n- b\n\n<a id="v1-0-0"></a>\n## v1.0.0\n\n- a\n'
    assert release.notes_of("1.1.0", log) == "- b\n"
    assert release.notes_of("1.0.0", log) == "- a\n"
    with pytest.raises(release.NoRelease, match=r"has no text about version 2\.0\.0"):
        release.notes_of("2.0.0", log)
