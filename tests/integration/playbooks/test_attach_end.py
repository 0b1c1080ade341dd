# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook attach ends with one sentence, also where a controller does the work. It prints few skipped tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.e2e.support.played import Json, play, well
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

WAITS = [{"claim": "default/a", "waits_for": "1 x A100"}, {"claim": "default/b", "waits_for": "1 x H100"}]
SERVED: Json = {"actions": [], "verdicts": [], "led_by": []}


@pytest.mark.parametrize(("result", "sentence"), [
    (SERVED, "No claim waits."),
    ({**SERVED, "verdicts": WAITS, "led_by": ["vm/1", "vm/2"]}, "This run changed nothing, since the Leases are "
     "held by vm/1 and vm/2. Claims that still wait: default/a, default/b."),
    ({"actions": [], "verdicts": WAITS[:1]}, "Claims that still wait: default/a."),
])
def test_the_last_line_sums_up(tmp_path: Path, result: Json, sentence: str) -> None:
    """`result` stands in for that of the module `scale`; the first tasks of the playbook are left out."""
    (attach,) = yaml.safe_load((ROOT / "playbooks" / "attach.yml").read_text(encoding="utf-8"))
    begin = [task["name"] for task in attach["tasks"]].index("Do the nodes' part meanwhile")
    meanwhile = attach["tasks"][begin]
    meanwhile["ansible.builtin.include_tasks"] = str(ROOT / "playbooks/tasks/node_meanwhile.yml")
    (tmp_path / "tasks").symlink_to(ROOT / "playbooks/tasks")
    book = [{**attach, "vars": {**attach["vars"], "attach_pass": result}, "tasks": attach["tasks"][begin:]}]
    done = well(play(tmp_path, book, {}))
    assert done.result("Say how the run ended")["msg"] == sentence
    assert len([name for name, task in done.tasks if task.get("skipped")]) <= 4
