# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of the playbooks' variables says what the playbooks read, and a misspelt variable is refused."""

from __future__ import annotations

import re
import typing as t

import pytest
import yaml

from ansible_collections.composable.infra.plugins.lookup.playbook_problem import TABLE, problem, takes
from ansible_collections.composable.infra.plugins.lookup.playbook_variables import PATHS
from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tests.unit.roles.playbook_inputs import ASKED, options_of, with_includes
from ansible_collections.composable.infra.tools import playbooks_page

Json = dict[str, t.Any]
FOLDER = ROOT / "playbooks"
TEXTS = {path.stem: with_includes(path) for path in sorted(FOLDER.glob("*.yml"))}
# Names with the prefix that are statistics or variables of hosts that the inventory plugin sets.
OTHERS = re.compile(r"composable_(?:plan|report|usage|whatif|defragment|nodes)$")


# The test that runs each playbook, and how it does so. Those of tests/e2e need a real control plane.
RUNS = {
    "attach": ("e2e/ansible/test_playbooks.py", 'well(run("attach"))'),
    "awx": ("integration/playbook_runs/test_runs.py", 'well(play(tmp_path, "composable.infra.awx"'),
    "bootstrap": ("e2e/ansible/test_bootstrap.py", 'well(run("bootstrap"))'),
    "conformance": ("integration/playbook_runs/test_runs.py", 'well(play(tmp_path, "composable.infra.conformance"'),
    "defragment": ("e2e/ahead/test_defragment.py", 'well(play(folder, "composable.infra.defragment"'),
    "detach": ("e2e/ansible/test_playbooks.py", 'run("detach"'),
    "drain_and_detach": ("e2e/ansible/test_playbooks.py", 'well(run("drain_and_detach"'),
    "eda": ("integration/playbook_runs/test_runs.py", 'well(play(tmp_path, "composable.infra.eda"'),
    "emulator": ("integration/playbooks/test_emulator.py", 'play(work, "composable.infra.emulator"'),
    "images": ("integration/playbook_runs/test_runs.py", 'well(play(tmp_path, "composable.infra.images"'),
    "move_driver": ("e2e/real_nodes/test_move_driver.py", 'play(folder, "composable.infra.move_driver"'),
    "plan": ("e2e/ansible/test_playbooks.py", 'well(run("plan"))'),
    "preflight": ("integration/playbooks/test_hosts.py", '("preflight", {})'),
    "report": ("e2e/ansible/test_playbooks.py", 'well(run("report"'),
    "uninstall": ("e2e/ansible/test_bootstrap.py", 'well(run("uninstall"))'),
    "upgrade": ("e2e/ansible/test_bootstrap.py", 'well(run("upgrade"))'),
    "usage": ("e2e/usage/test_usage_restarts.py", 'well(play(tmp_path, "composable.infra.usage"'),
    "verify": ("integration/playbooks/test_hosts.py", '("verify", {})'),
    "whatif": ("e2e/flows/test_whatif.py", 'played.well(played.play(tmp_path, "composable.infra.whatif"'),
}


@pytest.fixture(scope="module")
def table() -> Json:
    """The table as the playbooks read it."""
    found: Json = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return found


def read_by(name: str, roles: list[str]) -> set[str]:
    """Names without the prefix that a playbook or its roles read."""
    text = "\n".join(line for line in TEXTS[name].splitlines() if not line.lstrip().startswith("#"))
    asked = {each for words in ASKED.findall(text) for each in re.findall(r"'(\w+)'", words.partition("was=")[0])}
    named = set(re.findall(r"\bcomposable_[a-z_]+", text))
    of_roles = {each for role in roles for each in options_of(role) if each.startswith("composable_")}
    return asked | {each.removeprefix("composable_") for each in named | of_roles if not OTHERS.match(each)}


def test_every_playbook_is_there(table: Json) -> None:
    assert list(table["playbooks"]) == list(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_a_test_runs_every_playbook(name: str) -> None:
    path, run = RUNS.get(name, ("", ""))
    assert path, f"name in RUNS the test that runs {name}"
    assert run in (ROOT / "tests" / path).read_text(encoding="utf-8")


def test_only_playbooks_that_are_there_have_a_test() -> None:
    assert list(RUNS) == list(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_the_table_has_what_the_playbook_reads(name: str, table: Json) -> None:
    read = read_by(name, table["playbooks"][name].get("roles", []))
    assert read - set(takes(name, table)) == set()
    assert set(takes(name, table)) <= set(table["variables"])


def test_every_variable_is_read_by_a_playbook_that_takes_it(table: Json) -> None:
    read = set().union(*(read_by(name, [path.name for path in (ROOT / "roles").iterdir()]) for name in TEXTS))
    assert set(table["variables"]) - read == set()
    taken = {each for name in TEXTS for each in takes(name, table)}
    assert set(table["variables"]) == taken


@pytest.mark.parametrize("name", TEXTS)
def test_every_playbook_refuses_misspelt_variables_first(name: str) -> None:
    plays = yaml.safe_load((FOLDER / f"{name}.yml").read_text(encoding="utf-8"))
    own = next(play for play in plays if play.get("hosts") == "localhost")
    first = (own.get("pre_tasks") or own["tasks"])[0]
    assert first["ansible.builtin.import_tasks"] == "tasks/check_variables.yml"
    assert (first["vars"], first["tags"]) == ({"playbook_name": name}, ["always"])


def test_paths_are_those_that_become_absolute(table: Json) -> None:
    paths = {name for name, option in table["variables"].items() if option["type"] == "path"}
    assert paths - {"node_root", "helm_binary"} == set(PATHS)


@pytest.mark.parametrize("name", TEXTS)
def test_statistics_are_those_that_the_playbook_sets(name: str, table: Json) -> None:
    found = re.findall(r"set_stats:\n\s+data:\n\s+(\w+):", TEXTS[name])
    assert sorted(table["playbooks"][name].get("returns", {})) == sorted(found)


def test_the_page_is_made_of_the_table(table: Json) -> None:
    assert playbooks_page.PAGE.read_text(encoding="utf-8") == playbooks_page.page(table), "run make playbooks-page"


def test_variables_of_the_inventory_are_those_that_its_plugins_set(table: Json) -> None:
    """They name them as texts, or as arguments of a call that adds the prefix."""
    text = "".join((ROOT / "plugins/inventory" / f"{name}.py").read_text(encoding="utf-8")
                   for name in ("cluster", "fabric"))
    named = set(re.findall(r"\bcomposable_([a-z]+)\b", text)) - set(table["variables"])
    assert set(table["inventory"]) == named


@pytest.mark.parametrize(("given", "words"), [
    ({}, ""), ({"composable_config_path": "x", "site_variable": 1}, ""),
    ({"composable_bootstrap_parts": ["nfd", "{{ more }}"]}, ""),
    ({"composable_plan": {}, "composable_devices": [], "composable_whatif": {}}, ""),
    ({"composable_conf_path": "x"}, "composable_conf_path: is not a variable of the playbooks of composable.infra. "
                                    "Did you mean composable_config_path?"),
    ({"composable_xyzzy": 1}, "composable_xyzzy: is not a variable of the playbooks of composable.infra. "
                              "plan takes composable_config, composable_config_path"),
    ({"composable_bootstrap_parts": ["nfd", "controler"]},
     "composable_bootstrap_parts: 'controler' is not allowed. Allowed are preflight, node_prepare"),
    ({"composable_platform": "kubernets"}, "composable_platform: 'kubernets' is not allowed. Allowed are kubernetes")])
def test_what_is_wrong_with_extra_variables(given: Json, words: str, table: Json) -> None:
    found = problem("plan", given, table)
    assert found.startswith(words) if words else found == ""
