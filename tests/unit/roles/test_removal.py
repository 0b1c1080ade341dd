# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What roles remove, in which order, and what stands in the way before anything is removed or installed.

What a role removes that the cluster removes as well goes before what the cluster removes it for.
kube-controller-manager deletes the Secret of a token when its ServiceAccount is gone, and kubernetes.core.k8s fails on
an object that goes between its look and its deletion. Source: tokens_controller.go of Kubernetes.
"""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.plugins.filter.core import FilterModule
from jinja2.nativetypes import NativeEnvironment

from ansible_collections.composable.infra.lab.control_plane.bootstrap import DEPLOY, documents
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

ROLE = ROOT / "roles" / "controllers"
OBJECTS = [*documents(DEPLOY / "scrape" / "rbac.yaml")]


def definition(file: str, scrapes: bool) -> list[dict[str, t.Any]]:
    """What a task of the role gives kubernetes.core.k8s of these objects."""
    held = yaml.safe_load((ROLE / "vars" / "main.yml").read_text(encoding="utf-8"))
    (task,) = (task for task in yaml.safe_load((ROLE / "tasks" / file).read_text(encoding="utf-8"))
               if "scrape" in str((task.get("kubernetes.core.k8s") or {}).get("definition")))
    known: dict[str, t.Any] = {"controllers_scrape_objects": OBJECTS, "controllers_scrapes": scrapes}
    known["controllers_scrape_gone"] = rendered(held["controllers_scrape_gone"], known)
    found: list[dict[str, t.Any]] = rendered(task["kubernetes.core.k8s"]["definition"], known)
    return found


def rendered(text: str, known: dict[str, t.Any]) -> t.Any:
    environment = NativeEnvironment()
    environment.filters.update({"dict2items": FilterModule().filters()["dict2items"]})
    return environment.from_string(text).render(known)


@pytest.mark.parametrize("file", ["fill.yml", "absent.yml"])
def test_secret_of_a_token_is_removed_before_its_account(file: str) -> None:
    kinds = [item["kind"] for item in definition(file, scrapes=False)]
    assert kinds.index("Secret") < kinds.index("ServiceAccount")
    assert len(kinds) == len(OBJECTS)


def test_account_is_made_before_the_secret_of_its_token() -> None:
    kinds = [item["kind"] for item in definition("fill.yml", scrapes=True)]
    assert kinds.index("ServiceAccount") < kinds.index("Secret")


# Selectors that are made of a mapping of labels.
SELECTORS = [(path.relative_to(ROOT).as_posix(), found) for path in sorted((ROOT / "roles").glob("*/tasks/*.yml"))
             for found in re.findall(r'label_selectors: "({{ \w+_labels.*})"', path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("file", "text"), SELECTORS)
def test_selectors_have_the_names_and_values_of_the_labels(file: str, text: str) -> None:
    (name,) = re.findall(r"\w+_labels", text)
    assert list(rendered(text, {name: {"a/b": "c", "d": "e"}})) == ["a/b=c", "d=e"], file


def test_there_are_such_selectors() -> None:
    assert len(SELECTORS) >= 3


# Where a role refuses to go, and what the role uninstall asks for that reason before it removes the first part.
ASKED_FIRST = {
    ("gpu_sharing", "Fail if ResourceClaims hold parts of GPUs"): "uninstall_of_gpus",
    ("nvidia_dra_driver", "Fail if ResourceClaims hold its devices"): "uninstall_of_gpus",
    ("gpu_operator", "Fail if ResourceClaims hold devices"): "uninstall_of_gpus",
    ("controllers", "Fail if the CRDs would be removed while devices are attached"): "uninstall_crds",
    ("cohdi", "Fail if our controllers run"): "uninstall_staying",
    ("cohdi", "Fail if devices are attached or requested"): "uninstall_asked",
}


def test_uninstall_asks_first_for_all_that_a_part_refuses() -> None:
    order = yaml.safe_load((ROOT / "roles/uninstall/vars/main.yml").read_text(encoding="utf-8"))["uninstall_order"]
    refusals = {(role, task["name"]) for role in order for path in (ROOT / "roles" / role / "tasks").glob("*absent.yml")
                for task in with_includes(path) if {"ansible.builtin.assert", "ansible.builtin.fail"} & set(task)}
    assert refusals == set(ASKED_FIRST)
    asked = (ROOT / "roles/uninstall/tasks/attached.yml").read_text(encoding="utf-8")
    assert [name for name in ASKED_FIRST.values() if name not in asked] == []


def with_includes(path: Path) -> t.Iterator[dict[str, t.Any]]:
    """The tasks of a file and of those of its folder that it includes."""
    for task in yaml.safe_load(path.read_text(encoding="utf-8")):
        yield task
        included = task.get("ansible.builtin.include_tasks")
        if isinstance(included, str):
            yield from with_includes(path.parent / included)


# The playbook bootstrap asks first for everything that one of its parts refuses later.
PLAYS: list[dict[str, t.Any]] = yaml.safe_load((ROOT / "playbooks/bootstrap.yml").read_text(encoding="utf-8"))
PLAY = {play["name"]: play for play in PLAYS}
FIRST = PLAY["Run the checks of all parts before the first part changes anything"]
INSTALL = PLAY["Install the GPU stack and the controllers"]
REFUSES = ("ansible.builtin.assert", "ansible.builtin.fail")
# What cannot be known before: hosts are prepared by the first part, which reads all of them before it changes one; what
# the chart was to bring is looked for when it has been installed; and the findings of verify are those of its end.
AFTERWARDS = {("cohdi", "Fail if a component is not installed")}
ITSELF = {"verify"}


def parts(play: dict[str, t.Any]) -> list[str]:
    """Roles that a play imports, in order."""
    return [task["ansible.builtin.import_role"]["name"].removeprefix("composable.infra.")
            for task in play["tasks"] if "ansible.builtin.import_role" in task]


def tasks_of(path: Path) -> t.Iterator[dict[str, t.Any]]:
    """The tasks of a file, and of those of its folder that it includes to install."""
    for task in yaml.safe_load(path.read_text(encoding="utf-8")):
        yield from task.get("block", [task])
        included = task.get("ansible.builtin.include_tasks")
        name = included["file"] if isinstance(included, dict) else included
        files = path.parent.glob("*_present.yml") if name and "{{" in name else [path.parent / name] if name else []
        for file in files:
            if file.stem not in ("absent", "manifests", "paused", "resumed"):
                yield from tasks_of(file)


def refusals(role: str, file: str) -> set[tuple[str, str]]:
    """Role and name of the tasks that refuse, from a file of tasks on."""
    path = ROOT / "roles" / role / "tasks" / file
    return {(role, task["name"]) for task in tasks_of(path) if set(REFUSES) & set(task)} if path.is_file() else set()


@pytest.mark.parametrize("role", [part for part in parts(INSTALL) if part not in ITSELF])
def test_what_a_part_refuses_is_asked_first(role: str) -> None:
    asked = refusals(role, "asked.yml") if role in parts(FIRST) else set()
    assert refusals(role, "main.yml") - asked == {each for each in AFTERWARDS if each[0] == role}


def test_parts_that_refuse_are_asked_with_their_own_condition_and_tag() -> None:
    assert {"controllers", "cohdi", "nvidia_dra_driver", "gpu_sharing"} <= set(parts(FIRST))
    for task in FIRST["tasks"]:
        if role := task.get("ansible.builtin.import_role", {}).get("name", "").removeprefix("composable.infra."):
            assert refusals(role, "asked.yml"), role
            assert task["ansible.builtin.import_role"]["tasks_from"] == "asked.yml"
            assert (task["when"], task["tags"]) == (f"'{role}' in bootstrap_chosen", [role])


def test_nothing_is_changed_before() -> None:
    names = [play["name"] for play in PLAYS]
    assert names.index(FIRST["name"]) < names.index("Prepare the hosts") < names.index(INSTALL["name"])
    assert FIRST["vars"] == INSTALL["vars"]
    for role in parts(FIRST):
        modules = {name for task in tasks_of(ROOT / "roles" / role / "tasks" / "asked.yml") for name in task
                   if "." in name}
        assert modules <= {*REFUSES, "ansible.builtin.debug", "ansible.builtin.include_tasks",
                           "ansible.builtin.set_fact",
                           "kubernetes.core.k8s_info", "composable.infra.stack_info"}
