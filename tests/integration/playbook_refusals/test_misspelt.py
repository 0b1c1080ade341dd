# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A misspelt variable is refused wherever it stands. tests/unit/roles has that every playbook asks first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.e2e.support.played import play, well
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

WRONG = {"composable_conf_path": "x"}
SENTENCE = ("composable_conf_path: is not a variable of the playbooks of composable.infra. "
            "Did you mean composable_config_path?")
# File of a folder with an inventory, and what is said after the sentence.
PLACES = {"group_vars/all.yml": "", "group_vars/composable_nodes.yml": ". It is a variable of the host worker-1",
          "host_vars/worker-1.yml": ". It is a variable of the host worker-1", "host_vars/localhost.yml": ""}


def inventory(folder: Path, place: str, variables: Mapping[str, object]) -> str:
    """Write an inventory with a file of variables. Return its path."""
    (folder / place).parent.mkdir(parents=True)
    (folder / place).write_text(yaml.safe_dump(variables), encoding="utf-8")
    hosts = {"all": {"hosts": {"localhost": {"ansible_connection": "local"}},
                     "children": {"composable_nodes": {"hosts": {"worker-1": None, "worker-2": None}}}}}
    (folder / "inventory.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")
    return str(folder / "inventory.yml")


@pytest.mark.parametrize("place", PLACES)
def test_a_playbook_refuses_a_misspelt_variable_of_the_inventory(tmp_path: Path, place: str) -> None:
    done = play(tmp_path / "run", "composable.infra.plan", {}, "-i", inventory(tmp_path, place, WRONG))
    assert (done.status, done.failures) == (2, [SENTENCE + PLACES[place]])


def test_a_value_that_is_not_allowed_is_refused_in_group_vars(tmp_path: Path) -> None:
    path = inventory(tmp_path, "group_vars/all.yml", {"composable_platform": "kubernets"})
    done = play(tmp_path / "run", "composable.infra.verify", {}, "-i", path)
    (failure,) = done.failures
    assert failure.startswith("composable_platform: 'kubernets' is not allowed. Allowed are kubernetes")


def test_variables_that_are_known_are_allowed_everywhere(tmp_path: Path) -> None:
    """Those of the playbooks, of the inventory plugins, and others without the prefix."""
    path = inventory(tmp_path, "group_vars/composable_nodes.yml", {
        "composable_node_ports": ["0000:00:01.0"], "composable_devices": [], "composable_bmc": "{{ undefined }}",
        "site_config": 1})
    check = {"ansible.builtin.import_tasks": str(ROOT / "playbooks/tasks/check_variables.yml"),
             "vars": {"playbook_name": "attach"}}
    well(play(tmp_path / "run", [{"hosts": "localhost", "gather_facts": False, "tasks": [check]}], {}, "-i", path))
