# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of the playbooks have one prefix, their names from before still work and say so; parts have tags."""

from __future__ import annotations

import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.e2e.support.played import Played, environment, play, well
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

FOLDER = ROOT / "playbooks"
BOOKS = sorted(path.name for path in FOLDER.glob("*.yml"))
ASKED = re.compile(r"lookup\('composable\.infra\.playbook_variables',\s*([^)]*)\)")
INCLUDED = re.compile(r"(?:include|import)_tasks: (?:tasks/)?(\w+\.yml)")
PARTS = ("preflight", "node_prepare", "nfd", "gpu_operator", "nvidia_dra_driver", "gpu_sharing", "controllers", "cohdi",
         "monitoring", "verify")


def text_of(path: Path) -> str:
    """A file and the files of tasks that it includes, without comments."""
    own = re.sub(r"^\s*#.*$", "", path.read_text(encoding="utf-8"), flags=re.M)
    return own + "".join(text_of(FOLDER / "tasks" / name) for name in dict.fromkeys(INCLUDED.findall(own))
                         if name != path.name)


def asked_for(play_: t.Any) -> set[str]:
    """Names that a play's variable ``given`` may have."""
    found = ASKED.search(play_.get("vars", {}).get("given", ""))
    return set(re.findall(r"'(\w+)'", found[1].partition("was=")[0])) if found else set()


@pytest.mark.parametrize("book", [name for name in BOOKS if "given." in text_of(FOLDER / name)])
def test_a_playbook_asks_for_the_variables_that_it_uses(book: str) -> None:
    plays = yaml.safe_load((FOLDER / book).read_text(encoding="utf-8"))
    text = text_of(FOLDER / book)
    used = set(re.findall(r"\bgiven\.(\w+)", text))
    if "'composable.infra.playbook_config', given" in text:
        used |= {"config", "config_path"}
    assert set().union(*(asked_for(play_) for play_ in plays)) == used


def said(folder: Path, variables: dict[str, t.Any]) -> Played:
    """A play that shows what the lookup returns."""
    lookup = ("lookup('composable.infra.playbook_variables', 'detach_nodes', 'conformance', 'timeout', "
              "was={'conformance': 'fabric'})")
    book = [{"hosts": "localhost", "connection": "local", "gather_facts": False,
             "vars": {"given": f"{{{{ {lookup} }}}}"},
             "tasks": [{"name": "say", "ansible.builtin.debug": {"msg": "{{ given }}"}}]}]
    return well(play(folder, book, variables))


def test_the_new_name_wins_and_what_was_not_given_is_left_out(tmp_path: Path) -> None:
    done = said(tmp_path, {"composable_detach_nodes": ["{{ 'node-' ~ 1 }}"], "detach_nodes": ["node-2"],
                           "composable_timeout": 5})
    assert done.result("say")["msg"] == {"detach_nodes": ["node-1"], "timeout": 5}
    assert "is now called" not in done.output


def test_an_old_name_works_and_says_what_it_is_called_now(tmp_path: Path) -> None:
    done = said(tmp_path, {"detach_nodes": ["node-2"], "fabric": {"endpoint": "https://a.example"}})
    assert done.result("say")["msg"] == {"detach_nodes": ["node-2"], "conformance": {"endpoint": "https://a.example"}}
    for old, new in (("detach_nodes", "composable_detach_nodes"), ("fabric", "composable_conformance")):
        assert f"The variable {old} is now called {new}." in done.output


def test_the_tasks_of_every_part_are_listed_under_its_tag(tmp_path: Path) -> None:
    (tmp_path / "inventory").write_text("localhost ansible_connection=local\n[gpu_nodes]\nworker-1\n", encoding="utf-8")
    done = subprocess.run([str(Path(sys.executable).parent / "ansible-playbook"), "composable.infra.bootstrap",
                           "--list-tasks", "-i", "inventory"], cwd=tmp_path, env=environment(tmp_path),
                          capture_output=True, text=True, check=True)
    listed = re.findall(r"^ +composable[.]infra[.](?:\w+) : .*TAGS: \[(.*)\]", done.stdout, re.M)
    assert {tag for tags in listed for tag in tags.split(", ")} == {*PARTS, "always"}
