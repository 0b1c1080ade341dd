# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records survive a kill at any moment; a torn last line costs that line only."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.composable.infra.emulator.pool.journal import Journal


def test_records_are_there_for_the_next_reader_at_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    assert list(journal.read()) == []
    journal.write({"n": 1})
    journal.write({"n": 2})
    assert list(Journal(tmp_path / "j").read()) == [{"n": 1}, {"n": 2}]
    journal.close()


def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(b'{"n": 1}\n[2]\n{"n": 3}\n{"n"')
    assert list(Journal(tmp_path / "j").read()) == [{"n": 1}, {"n": 3}]


def test_beginning_anew_replaces_all_and_writing_goes_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.write({"n": 1})
    journal.replace([{"n": 2}])
    journal.write({"n": 3})
    assert list(journal.read()) == [{"n": 2}, {"n": 3}]
    journal.close()
    assert [path.name for path in tmp_path.iterdir()] == ["j"]
