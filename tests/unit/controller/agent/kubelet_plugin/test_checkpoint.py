# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file with the prepared claims: whole or not at all, read again as it was, and refused when it is another's."""

from __future__ import annotations

import json
import os
import typing as t
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.cdi.files import write_whole
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.checkpoint import (
    Checkpoint,
    PreparedClaim,
    PreparedDevice,
)

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


@pytest.mark.parametrize("text", [
    '{"version": 9, "claims": []}', "{", "[]", '{"version": 1, "claims": [{"uid": "u"}]}', "\x00" * 8,
    '{"version": 1, "claims": [{"uid": "u", "namespace": "n", "name": "c", "devices": [{"x": 1}]}]}'])
def test_file_that_is_not_ours_is_put_aside(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "checkpoint.json"
    path.write_text(text)
    found = Checkpoint(path)
    assert found.claims() == []
    assert f"{path} is not a checkpoint of this agent" in caplog.text
    assert path.with_name("checkpoint.json.unusable").read_text() == text
    found.put(CLAIM)
    assert Checkpoint(path).claims() == [CLAIM]


def newer(path: Path) -> dict[str, t.Any]:
    """A checkpoint as a newer agent may have written it, with a key more in each of its objects."""
    Checkpoint(path).put(CLAIM)
    document: dict[str, t.Any] = json.loads(path.read_text())
    document["written"] = "2027-01-01"
    document["claims"][0]["note"] = {"a": 1}
    document["claims"][0]["devices"][0]["partition"] = "1g.10gb"
    path.write_text(json.dumps(document))
    return document


def test_what_a_newer_agent_wrote_is_read_and_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "checkpoint.json"
    document = newer(path)
    found = Checkpoint(path)
    assert found.claims() == [CLAIM]
    other = replace(CLAIM, uid="v")
    found.put(other)
    found.put(CLAIM)
    found.drop("v")
    assert json.loads(path.read_text()) == document, "the newer agent finds what it wrote"
    assert caplog.text == ""


def test_keys_of_a_device_go_with_the_device(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.json"
    newer(path)
    found = Checkpoint(path)
    moved = replace(CLAIM, devices=(replace(CLAIM.devices[0], device="gpu-b"),))
    found.put(moved)
    assert "partition" not in path.read_text(), "it was said of another device"
    assert Checkpoint(path).claims() == [moved]
    found.drop("u")
    found.put(CLAIM)
    assert "note" not in path.read_text()


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


def test_claim_is_dropped_on_a_full_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pod could not end otherwise. After a restart the file still has it, until the kubelet asks again."""
    mine = Checkpoint(tmp_path / "checkpoint.json")
    mine.put(CLAIM)

    def refuse(_descriptor: int) -> None:
        raise OSError(28, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        mine.drop("u")
    assert mine.claims() == []
    assert Checkpoint(tmp_path / "checkpoint.json").claims() == [CLAIM]
