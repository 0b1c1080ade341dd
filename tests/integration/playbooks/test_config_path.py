# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of the configuration is found in the working folder, and a file that cannot be read is named."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played, play, well
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

PLAYBOOKS = ROOT / "playbooks"
PASSWORD = "only-in-the-file"
# no file of a configuration is named, but by the environment
ABSENT = "absent"
CONFIG = {"device_info": [{"k8s-device-name": "a100", "cdi-model-name": "A100"}], "node_operations": "ssh",
          "fabric": {"endpoint": "https://127.0.0.1:1", "password": PASSWORD}}
# the working folder of a run has it as config.yml
PATH = {"composable_config_path": "config.yml", "composable_detach_nodes": ["node-1"],
        "composable_kubeconfig": "/nowhere/kubeconfig"}
GIVEN = ("lookup('composable.infra.playbook_variables', 'config', 'config_path', 'detach_nodes', 'detach_models', "
         "'report_dir')")


def ran(folder: Path, book: str, variables: Json, config: str = yaml.safe_dump(CONFIG), **env: str) -> Played:
    """Run a playbook in a working folder that has the configuration."""
    work = folder / "work"
    work.mkdir()
    (work / "config.yml").write_text(config, encoding="utf-8")
    (work / "inventory").write_text("[composable_nodes]\nnode-1\n", encoding="utf-8")
    return play(work, book, variables, "-i", "inventory", **env)


def book_of(folder: Path, tasks: list[Json]) -> str:
    """Write a playbook into a folder that is not the working folder."""
    book = [{"hosts": "localhost", "connection": "local", "gather_facts": False,
             "vars": {"given": f"{{{{ {GIVEN} }}}}"}, "tasks": tasks}]
    (folder / "books").mkdir()
    (folder / "books" / "book.yml").write_text(yaml.safe_dump(book), encoding="utf-8")
    return str(folder / "books" / "book.yml")


def test_tasks_of_all_playbooks_take_a_relative_path(tmp_path: Path) -> None:
    """settings.yml is of detach and drain_and_detach, node_hosts.yml of attach, and both check the configuration."""
    shown = {"node_operations": "{{ node_operations }}", "wanted": "{{ detach_wanted }}",
             "paths": "{{ [given.config_path, given.report_dir] }}"}
    included = [{"ansible.builtin.include_tasks": str(PLAYBOOKS / "tasks" / name)}
                for name in ("settings.yml", "node_hosts.yml")]
    book = book_of(tmp_path, [*included, {"name": "show", "ansible.builtin.debug": {"msg": shown}}])
    done = well(ran(tmp_path, book, {**PATH, "composable_report_dir": "report"}))
    assert done.result("show")["msg"] == {"node_operations": "ssh", "wanted": ["A100"],
                                          "paths": [str(tmp_path / "work" / name) for name in ("config.yml", "report")]}
    assert PASSWORD not in done.output


@pytest.mark.parametrize("name", ["attach", "report"])
def test_a_shipped_playbook_goes_on_to_the_cluster(tmp_path: Path, name: str) -> None:
    """`attach` passes the path to a module, and `report` reads the file itself."""
    done = ran(tmp_path, f"composable.infra.{name}", PATH, yaml.safe_dump({**CONFIG, "node_operations": "agent"}))
    assert done.status != 0
    assert "/nowhere/kubeconfig" in "".join(done.failures) + done.output


@pytest.mark.parametrize(("name", "variables", "config", "sentence"), [
    ("attach", {"composable_config_path": "absent.yml"}, "",
     "composable_config_path: cannot read {folder}/absent.yml: No such file or directory"),
    ("report", {"composable_config_path": "config.yml"}, "fabric: [",
     "composable_config_path: {folder}/config.yml: is not valid YAML at line 1"),
    ("attach", {}, ABSENT, "COMPOSABLE_CONFIG_PATH: cannot read {folder}/absent.yml: No such file or directory"),
    ("detach", {}, "", "composable_config_path: is missing: name the file with the configuration, or give "
     "composable_config"),
])
def test_a_playbook_names_the_option_and_the_file(tmp_path: Path, name: str, variables: dict[str, t.Any], config: str,
                                                  sentence: str) -> None:
    env = {"COMPOSABLE_CONFIG_PATH": "absent.yml"} if config == ABSENT else {}
    given = {"composable_detach_nodes": ["node-1"], **variables}
    done = ran(tmp_path, f"composable.infra.{name}", given, config, **env)
    assert done.failures == [sentence.format(folder=tmp_path / "work")]


def test_no_playbook_reads_a_given_file_by_another_way() -> None:
    """The lookup `file` looks beside the playbook, that is within the installed collection."""
    assert [path.name for path in PLAYBOOKS.rglob("*.yml")
            if "lookup('ansible.builtin.file'" in path.read_text(encoding="utf-8")] == []
