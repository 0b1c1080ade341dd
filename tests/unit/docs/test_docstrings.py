# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of docstrings and comments finds what breaks a rule, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.tools import docstrings, messages
from ansible_collections.composable.infra.tools.words import rules

FILE = '''\
# Copyright (c) 2026 somebody; this line is not judged
"""Read devices. A device that nobody has is free.

The name ``nobody`` is code, and "nobody knows" is a message.
"""

# Comments of two lines are one sentence, which is read
# anew for each block.
SOON = 1  # the CDI Manager is asked for a device


def let_go() -> None:
    """Release a pod; its gate goes."""
'''


def found_in(tmp_path: Path, text: str) -> list[str]:
    """What the check says of a file, without the sentences."""
    (tmp_path / "file.py").write_text(text, encoding="utf-8")
    every = docstrings.read("file.py", tmp_path)
    return [line.rpartition(": ")[0] for said in every for line in docstrings.problems(said, rules())]


def test_docstrings_and_comments_are_judged_and_code_is_not(tmp_path: Path) -> None:
    assert sorted(found_in(tmp_path, FILE)) == [
        "file.py:13: ';': write two sentences",
        "file.py:2: 'nobody': name the role",
        "file.py:7: 'anew': say \"again\"",
        "file.py:9: 'asked for': say \"requested\"",
    ]


def test_make_lint_has_folders_to_check() -> None:
    assert rules().code
    assert rules().messages


def test_a_sample_is_the_same_for_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for seed in ("1", "1", "2"):
        assert docstrings.main(["--sample", "3", "--seed", seed, "tools"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != shown[2]


MODULE = '''\
DOCUMENTATION = r"""
module: thing
options:
  size:
    description: Size; one that nobody has is free.
"""
EXPRESSION = r"^a; b$"


def refuse(name: str) -> None:
    """Refuse; this docstring is no message."""
    log.warning("device %s is attached anew", name)
    raise ValueError(f"{name}: the device is in trouble; try again")
'''
TASKS = """\
- name: Release the pods
  vars: {key: "a value; this is not shown"}
  ansible.builtin.fail:
    msg: "{{ pods; }} let it go"
"""


@pytest.mark.parametrize(("name", "text", "found"), [
    ("file.py", MODULE, {(5, ";"), (5, "nobody"), (12, "anew"), (13, ";"), (13, "trouble")}),
    ("tasks.yml", TASKS, set())])
def test_messages_and_option_descriptions_are_judged_and_the_rest_is_not(
        tmp_path: Path, name: str, text: str, found: set[tuple[int, str]]) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    every = [docstrings.Said(name, line, said) for line, said in messages.read(name, tmp_path)]
    lines = [line.split(": ")[:2] for said in every for line in docstrings.problems(said, rules())]
    assert {(int(place.rpartition(":")[2]), word.strip("'")) for place, word in lines} == found


def test_a_task_that_shows_a_banned_word_is_found(tmp_path: Path) -> None:
    (tmp_path / "tasks.yml").write_text(TASKS.replace("let it go", "try again; or wait"), encoding="utf-8")
    assert [line for line, _said in messages.read("tasks.yml", tmp_path)] == [1, 4]
    assert any("write two sentences" in line for at, said in messages.read("tasks.yml", tmp_path)
               for line in docstrings.problems(docstrings.Said("tasks.yml", at, said), rules()))


def test_a_sample_of_messages_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    assert docstrings.main(["--messages", "--sample", "3", "--seed", "1", "plugins/modules"]) == 0
    assert capsys.readouterr().out.count("plugins/modules/") == 3
