# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hosting site and an editor read is valid and calls only what is there."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

FILES = [".pre-commit-config.yaml",
         *sorted(str(path.relative_to(ROOT)) for path in (ROOT / ".github").rglob("*.yml"))]
WORKFLOWS = [name for name in FILES if "/workflows/" in name]
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))


def load(name: str) -> t.Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def jobs() -> list[tuple[str, dict[str, t.Any]]]:
    return [(f"{name}: {job}", body) for name in WORKFLOWS for job, body in load(name)["jobs"].items()]


@pytest.mark.parametrize("name", FILES)
def test_the_yaml_is_valid_and_in_the_project_s_style(name: str) -> None:
    rules = YamlLintConfig(file=str(ROOT / ".yamllint"))
    assert [str(found) for found in linter.run((ROOT / name).read_text(encoding="utf-8"), rules, name)] == []


def test_the_workflows_test_each_change_and_release_each_tag() -> None:
    assert set(load(".github/workflows/test.yml")["on"]) >= {"push", "pull_request"}
    assert load(".github/workflows/release.yml")["on"] == {"push": {"tags": ["v*"]}}


@pytest.mark.parametrize(("name", "job"), jobs(), ids=[name for name, _job in jobs()])
def test_a_job_runs_somewhere_with_actions_of_a_version(name: str, job: dict[str, t.Any]) -> None:
    assert ("uses" in job) != ("runs-on" in job and bool(job["steps"]))
    for step in job.get("steps", []):
        assert ("uses" in step) != ("run" in step), step
        assert re.search(r"@v\d+$", step.get("uses", "x@v1"))


def test_a_job_waits_for_jobs_that_are_there_and_nothing_is_published_untested() -> None:
    release = load(".github/workflows/release.yml")["jobs"]
    needs = {job: [body.get("needs")] if isinstance(body.get("needs"), str) else body.get("needs", [])
             for job, body in release.items()}
    assert {name for names in needs.values() for name in names} <= set(release)
    assert [job for job, names in needs.items() if not names] == ["test"]


@pytest.mark.parametrize("name", [*FILES, ".devcontainer/devcontainer.json"])
def test_every_target_that_is_called_exists(name: str) -> None:
    called = set(re.findall(r"(?:run: |entry: |\"|&& )make ([a-z0-9-]+)", (ROOT / name).read_text(encoding="utf-8")))
    assert called <= TARGETS


def test_files_that_hooks_and_images_name_exist() -> None:
    hooks = [hook for repo in load(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert {hook["language"] for hook in hooks} == {"system"}
    named = [word for hook in hooks for word in hook["entry"].split() if word.startswith("tests/")]
    assert [word for word in named if not (ROOT / word).exists()] == []


def test_the_container_of_an_editor_sets_itself_up() -> None:
    said = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert said["postCreateCommand"] == "make setup"


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md", ".github/PULL_REQUEST_TEMPLATE.md"])
def test_what_people_look_for_is_there(name: str) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8")) > 100


def test_the_readme_has_the_sections_that_a_certified_collection_has() -> None:
    """Source: Red Hat's template of a README for certified collections."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.M) == [
        "Description", "Requirements", "Installation", "Use cases", "Testing", "Contributing", "Support",
        "Release notes", "Related information", "License"]
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert pictures
    assert [name for name in pictures if not Path(ROOT / name).is_file()] == []
