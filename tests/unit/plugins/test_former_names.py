# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables and keys with a former name work in roles and playbooks, too."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

Json = dict[str, t.Any]


def rendered(expression: str, variables: Json) -> object:
    """Render an expression as Ansible does."""
    return t.cast(object, NativeEnvironment().from_string(expression).render(variables))


@pytest.mark.parametrize(("given", "program"), [
    ({}, "agent"), ({"controllers_node_hands": "ssh"}, "ssh")])
def test_role_controllers_takes_the_former_variable(given: Json, program: str) -> None:
    defaults = yaml.safe_load((ROOT / "roles/controllers/defaults/main.yml").read_text(encoding="utf-8"))
    assert rendered(defaults["controllers_node_operations"], given) == program
    tasks = yaml.safe_load((ROOT / "roles/controllers/tasks/options.yml").read_text(encoding="utf-8"))
    (warning,) = [task for task in tasks if "deprecated" in str(task.get("ansible.builtin.debug"))]
    assert rendered("{{ " + warning["when"] + " }}", given) is bool(given)


KEYS: list[tuple[Json, str]] = [
    ({}, "agent"), ({"node_hands": "ssh"}, "ssh"), ({"node_operations": "ssh"}, "ssh"),
    ({"node_operations": "ssh", "node_hands": "none"}, "ssh")]


@pytest.mark.parametrize(("config", "program"), KEYS)
def test_playbooks_take_the_former_key(config: Json, program: str) -> None:
    tasks = yaml.safe_load((ROOT / "playbooks/tasks/node_hosts.yml").read_text(encoding="utf-8"))
    (expression,) = [facts["node_operations"] for task in tasks
                     if "node_operations" in (facts := task.get("ansible.builtin.set_fact") or {})]
    assert rendered(expression, {"node_config": config}) == program


@pytest.mark.parametrize(("config", "program"), KEYS)
def test_role_awx_takes_the_former_key(config: Json, program: str) -> None:
    values = yaml.safe_load((ROOT / "roles/awx/vars/main/templates.yml").read_text(encoding="utf-8"))
    assert rendered(values["awx_logs_in"], {"awx_config": config}) is (program == "ssh")
