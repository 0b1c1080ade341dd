# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate of both environments finds what would make an image useless; the definitions fit the pins."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.composable.infra.lab.binaries.helm import VERSION
from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tools.gates import execution_environment as gate

DEFINITIONS = {name: yaml.safe_load((ROOT / name).read_text(encoding="utf-8")) for name in gate.DEFINITIONS}
DEFINITION = DEFINITIONS["execution-environment.yml"]
EVERY = pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """An image's context that asks for one collection as a file, and holds it."""
    (tmp_path / "_build" / "collections").mkdir(parents=True)
    (tmp_path / "_build" / "collections" / "ours.tar.gz").touch()
    ask(tmp_path, {"name": "collections/ours.tar.gz", "type": "file"}, {"name": "kubernetes.core"})
    return tmp_path


def ask(context: Path, *collections: dict[str, str]) -> None:
    """Write what the context asks for."""
    text = yaml.safe_dump({"collections": list(collections)})
    (context / "_build" / "requirements.yml").write_text(text, encoding="utf-8")


def test_a_whole_context_has_no_faults(context: Path) -> None:
    assert gate.context_faults(context, "an.yml") == []


def test_an_archive_that_is_absent_is_found(context: Path) -> None:
    (context / "_build" / "collections" / "ours.tar.gz").unlink()
    assert gate.context_faults(context, "an.yml") == [
        "an.yml: collections/ours.tar.gz is required, but not in the context"]


def test_a_context_without_this_collection_is_found(context: Path) -> None:
    ask(context, {"name": "kubernetes.core"})
    assert gate.context_faults(context, "an.yml") == [
        "an.yml: this collection is not among its collections"]


def test_a_need_that_is_not_told_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "requirements.txt").write_text("# a comment\nurllib3>=2\njmespath>=1\nPyYAML>=6\n", encoding="utf-8")
    (tmp_path / "bindep.txt").write_text("java [platform:rpm]\n", encoding="utf-8")
    monkeypatch.setattr(gate, "builder", lambda *_arguments: (0, "urllib3>=2 and java"))
    assert gate.introspect_faults(tmp_path) == [
        "ansible-builder introspect does not name jmespath, which requirements.txt asks for"]


def test_what_ansible_builder_says_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "builder", lambda *_arguments: (1, "it broke"))
    assert gate.introspect_faults(tmp_path) == ["it broke"]


@EVERY
def test_versions_are_those_that_the_tests_run_with(definition: dict[str, Any]) -> None:
    pins = (ROOT / "requirements" / "constraints.txt").read_text(encoding="utf-8").replace("_", "-").splitlines()
    needs = definition["dependencies"]
    named = [needs["ansible_core"]["package_pip"], needs["ansible_runner"]["package_pip"], *needs["python"]]
    assert [name for name in named if name not in pins] == []


@EVERY
def test_the_archive_is_the_one_that_make_build_makes(definition: dict[str, Any]) -> None:
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    archive = f"{galaxy['namespace']}-{galaxy['name']}-{galaxy['version']}.tar.gz"
    (added,) = definition["additional_build_files"]
    collections = [entry["name"] for entry in definition["dependencies"]["galaxy"]["collections"]]
    assert added["src"] == f"dist/{archive}"
    assert f"{added['dest']}/{archive}" in collections
    assert set(galaxy["dependencies"]) <= set(collections)


def test_the_controllers_are_started_with_the_images_python() -> None:
    defaults = yaml.safe_load((ROOT / "roles" / "controllers" / "defaults" / "main.yml").read_text(encoding="utf-8"))
    interpreter = Path(DEFINITION["dependencies"]["python_interpreter"]["python_path"]).name
    assert defaults["controllers_command"][0] == interpreter


# What a step on the control node starts, and the package or build step that brings it.
BROUGHT_BY = {"helm": "https://get.helm.sh/helm-v", "ssh": "openssh-clients", "java": "java-17-openjdk-headless"}


def test_every_program_that_roles_and_playbooks_start_is_in_the_image() -> None:
    """Programs of the hosts that are prepared are theirs; those of the control node must be in the image."""
    assert started() == set(BROUGHT_BY)
    text = (ROOT / "execution-environment.yml").read_text(encoding="utf-8")
    steps = " ".join([*DEFINITION["dependencies"]["system"], *DEFINITION["additional_build_steps"]["append_final"]])
    assert [name for name, words in BROUGHT_BY.items() if words not in steps.replace("$HELM", "helm-v")] == []
    assert VERSION in text


def test_the_decision_environment_has_what_rulebooks_start_and_no_more() -> None:
    """Jobs run in the execution environment, so neither helm nor ssh is needed; SIGTERM must reach the rulebook."""
    definition = DEFINITIONS["decision-environment.yml"]
    assert definition["dependencies"]["system"] == [f"{BROUGHT_BY['java']} [platform:rpm]"]
    assert [name.partition("=")[0] for name in definition["dependencies"]["python"]] == ["ansible-rulebook", "jmespath"]
    assert definition["additional_build_steps"]["append_final"] == ["ENV JAVA_TOOL_OPTIONS=-Xrs"]


def started() -> set[str]:
    """``helm`` for charts, ``ssh`` for plays on other hosts, ``java`` for rulebooks, and what is named to start."""
    of_hosts = ("lab", "node_prepare")
    found = {"java"} if list((ROOT / "extensions/eda/rulebooks").glob("*.yml")) else set()
    for book in (ROOT / "playbooks").glob("*.yml"):
        plays = yaml.safe_load(book.read_text(encoding="utf-8"))
        found |= {"ssh" for play in plays if play.get("hosts", "localhost") != "localhost"}
    for path in (ROOT / "roles").glob("*/tasks/*.yml"):
        for task in yaml.safe_load(path.read_text(encoding="utf-8")) or []:
            found |= {"helm" for name in task if name.startswith("kubernetes.core.helm")}
            if path.parts[-3] not in of_hosts and (command := task.get("ansible.builtin.command")):
                found |= set(re.findall(r"default\('([a-z]+)', true\)", str(command["argv"]))[:1])
    return found
