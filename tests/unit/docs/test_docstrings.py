# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of docstrings and comments finds what breaks a rule, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.tools import docstrings
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


def test_folders_that_keep_to_the_rules_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert docstrings.main(["--check"]) == 0, capsys.readouterr().out
    assert rules().code


def test_a_sample_is_the_same_for_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for seed in ("1", "1", "2"):
        assert docstrings.main(["--sample", "3", "--seed", seed, "tools"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != shown[2]
