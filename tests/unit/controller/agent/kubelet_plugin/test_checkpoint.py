# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file with the prepared claims: whole or not at all, read again as it was, and refused when it is another's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.cdi.files import write_whole
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.checkpoint import (
    Checkpoint,
    PreparedClaim,
    PreparedDevice,
)
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.errors import BadCheckpoint

CLAIM = PreparedClaim("u", "ns", "c", (PreparedDevice("gpu", "n", "gpu-a", "0000:10:00.0", "GPU-a", "s", True, True),))


def test_what_was_noted_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "new/folder/checkpoint.json"
    first = Checkpoint(path)
    first.drop("nobody")
    assert not path.exists()
    first.put(CLAIM)
    assert Checkpoint(path).claims() == [CLAIM]
    first.drop("u")
    assert Checkpoint(path).get("u") is None


@pytest.mark.parametrize(("text", "words"), [
    ('{"version": 9, "claims": []}', "version 9 is not usable: allowed is 1"),
    ("{", "it is no checkpoint"), ("[]", "it is no checkpoint"),
    ('{"version": 1, "claims": [{"uid": "u"}]}', "it is no checkpoint"),
    ('{"version": 1, "claims": [{"uid": "u", "namespace": "n", "name": "c", "devices": [{"x": 1}]}]}', "no checkpoint"),
])
def test_file_that_is_not_ours_is_refused_and_kept(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "checkpoint.json"
    path.write_text(text)
    with pytest.raises(BadCheckpoint, match=words) as refused:
        Checkpoint(path)
    assert str(path) in str(refused.value)
    assert path.read_text() == text


def test_whoever_dies_while_writing_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, "first")

    def dies(*_unused: object) -> None:
        raise KeyboardInterrupt

    for call in ("fsync", "open"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, dies)
            with pytest.raises(KeyboardInterrupt):
                write_whole(path, "second")
        assert path.read_text() in ("first", "second")
    write_whole(path, "third")
    assert [(it.name, it.read_text()) for it in tmp_path.iterdir()] == [("file", "third")]


def test_note_that_was_not_written_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Checkpoint(tmp_path / "checkpoint.json")

    def refuse(_self: Path, _target: Path) -> Path:
        raise OSError(28, "no space")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="no space"):
        mine.put(CLAIM)
    assert mine.claims() == []
