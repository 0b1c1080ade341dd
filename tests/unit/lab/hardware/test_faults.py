# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of a node: what the file says, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.hardware.node import faults


def test_no_file_is_no_fault(tmp_path: Path) -> None:
    assert faults.read(tmp_path) == frozenset()


def test_faults_are_switched_one_by_one(tmp_path: Path) -> None:
    assert faults.switch(tmp_path, faults.NO_EVENT, True) == {faults.NO_EVENT}
    assert faults.switch(tmp_path, faults.NO_ROOM, True) == {faults.NO_EVENT, faults.NO_ROOM}
    assert faults.switch(tmp_path, faults.NO_EVENT, False) == {faults.NO_ROOM}
    assert faults.switch(tmp_path, faults.NO_EVENT, False) == faults.read(tmp_path)


def test_unknown_kind_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"'fire' is not allowed: use one of no-event, .*plugin-fails"):
        faults.switch(tmp_path, "fire", True)
    assert not (tmp_path / "faults.json").exists()


@pytest.mark.parametrize(("text", "message"), [("{", "is not JSON"), ("[]", "must hold an object"),
                                               ('{"fire": true}', "'fire' is not allowed")])
def test_file_that_is_no_use_is_explained(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "faults.json").write_text(text, encoding="utf-8")
    with pytest.raises(LabError, match=message):
        faults.read(tmp_path)


def test_a_fault_that_the_file_says_is_off_is_off(tmp_path: Path) -> None:
    (tmp_path / "faults.json").write_text('{"no-event": false, "no-room": true}', encoding="utf-8")
    assert faults.read(tmp_path) == {faults.NO_ROOM}
