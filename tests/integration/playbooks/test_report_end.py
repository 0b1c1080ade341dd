# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook report ends with one sentence and prints none of the pages that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.e2e.support.played import Json, play, well
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

SUMMARY = {"machines": 2, "nodes": 2, "attached": 3, "idle": 1, "free": 4, "waiting": 1}
TABLES: Json = {"summary": SUMMARY, "models": [], "nodes": [], "claims": [{"claim": "default/a", "waits_for": "a GPU"}],
                "idle": [], "strangers": [], "problems": []}
LINES: Json = {"waits": [], "claims": [], "all_claims": True}
SENTENCE = "3 devices attached (1 idle), 4 free, 1 claims waiting, 2 nodes, 2 machines."


@pytest.mark.parametrize(("options", "words"), [
    ((), "report.md and report.html are in {folder}/pages: "),
    (("--check",), "--check: report.md and report.html would be in {folder}/pages: ")])
def test_the_last_line_sums_up(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    """The tables stand in for what the first tasks of the playbook read, which are left out."""
    (report,) = yaml.safe_load((ROOT / "playbooks" / "report.yml").read_text(encoding="utf-8"))
    begin = [task["name"] for task in report["tasks"]].index("Create the folder")
    (tmp_path / "templates").symlink_to(ROOT / "playbooks/templates")
    shown = {**report["vars"], "tables": TABLES, "lines": LINES, "report_folder": str(tmp_path / "pages")}
    book = [{**report, "vars": shown, "tasks": report["tasks"][begin:]}]
    done = well(play(tmp_path, book, {}, *options))
    assert done.result("Report the summary")["msg"] == words.format(folder=tmp_path) + SENTENCE
    assert (tmp_path / "pages" / "report.md").exists() is (not options)
    assert "a GPU" not in done.output
