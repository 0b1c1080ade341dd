# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks attach and plan end with sentences for people, also where a controller does the work."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.run import Outcome
from ansible_collections.composable.infra.tests.e2e.support.played import (
    Json,
    Played,
    Question,
    play,
    play_each,
    well,
)
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

WAITS = (WaitReason("default/a", "1 x A100", 5.0, {}, "direct"), WaitReason("default/b", "1 x H100", 6.0, {}, "direct"))
ACTION: Json = {"action": "SetSize", "reason": "1 x A100 wanted on node n1", "node": "n1", "model": "A100",
                "before": None, "size": 1}


def attached(time: float, node: str, *claims: str, reason: str = "Attached") -> Json:
    """Return an entry of a history, as the reporter writes it."""
    return {"time": time, "reason": reason, "about": f"gpu-{node}", "type": "Normal", "claims": list(claims),
            "message": f"device GPU-{node} (A100 40G) attached to node {node}", "node": node, "model": "A100 40G"}


NOTE: Json = {"time": 1.5, "reason": "PodBound", "about": "default/p", "message": "to node n1", "type": "Normal",
              "claims": []}
THREE = (attached(1.0, "node-0", "team-a/train"), NOTE, attached(2.0, "node-0", "team-a/train"),
         attached(3.0, "node-1", "team-b/x"))
RUNS = {
    "idle": (Outcome(False, (), (), {}, True, ()), "Attached nothing. No claim waits. Led by this run."),
    "attached": (Outcome(True, (), WAITS[:1], {}, True, THREE),
                 "Attached: 2 x A100 40G to node-0 for team-a/train, A100 40G to node-1 for team-b/x. "
                 "Waiting: default/a. Led by this run."),
    "detached": (Outcome(True, (), (), {}, True, (attached(1.0, "node-0", "a/old", reason="Detached"),)),
                 "Detached: A100 40G from node-0. No claim waits. Led by this run."),
    "led": (Outcome(False, (), WAITS, {}, True, (), ("vm/1", "vm/2")),
            "This run changed nothing. Waiting: default/a, default/b. Led by vm/1 and vm/2."),
    "check": (Outcome(True, (ACTION,), WAITS[:1], {}), "Would change A100 on n1 from 0 to 1. Waiting: default/a. "
              "No process leads."),
    "many": (Outcome(True, (), (), {}, True, tuple(attached(n, f"n{n}") for n in range(7))),
             "Attached: A100 40G to n0, A100 40G to n1, A100 40G to n2, A100 40G to n3, A100 40G to n4 and 2 more. "
             "No claim waits. Led by this run."),
}


def tail(playbook: str, first: str) -> tuple[Json, list[Json]]:
    """Return the variables of a playbook, and its tasks from the named one on; files of tasks by full path."""
    (book,) = yaml.safe_load((ROOT / "playbooks" / f"{playbook}.yml").read_text(encoding="utf-8"))
    begin = [task["name"] for task in book["tasks"]].index(first)
    return book["vars"], absolute(book["tasks"][begin:])


def absolute(value: t.Any) -> t.Any:
    """Return tasks with the files that they include by full path."""
    if isinstance(value, list):
        return [absolute(each) for each in value]
    if isinstance(value, dict):
        return {key: str(ROOT / "playbooks" / each) if key == "ansible.builtin.include_tasks" else absolute(each)
                for key, each in value.items()}
    return value


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """The ends of attach. The results of RUNS stand in for that of the module `scale`."""
    variables, tasks = tail("attach", "Work on the nodes until the pass has ended")
    return play_each(tmp_path_factory.mktemp("ends"), {
        key: Question(tasks, {**variables, "attach_pass": outcome.as_result()})
        for key, (outcome, _said) in RUNS.items()})


@pytest.mark.parametrize("key", RUNS)
def test_the_last_line_sums_up(ends: dict[str, Played], key: str) -> None:
    done = well(ends[key])
    name, result = done.tasks[-1]
    assert (name, result["msg"]) == ("Report the result in one sentence", RUNS[key][1])
    assert len([name for name, task in done.tasks if task.get("skipped")]) <= 4


@pytest.mark.parametrize("options", [(), ("-v",)], ids=["plain", "verbose"])
def test_a_person_reads_lines(tmp_path: Path, options: tuple[str, ...]) -> None:
    """In Ansible's own output. With -v it has a line for each step, and no dictionary."""
    variables, tasks = tail("attach", "Work on the nodes until the pass has ended")
    outcome, sentence = RUNS["attached"]
    book = [{"name": "Attach", "hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks,
             "vars": {**variables, "attach_pass": outcome.as_result()}}]
    done = well(play(tmp_path, book, {}, *options, ANSIBLE_STDOUT_CALLBACK="ansible.builtin.default", TZ="UTC"))
    lines = [line.strip().strip('",') for line in done.output.partition("PLAY RECAP")[0].splitlines()]
    assert [line for line in lines if line not in ("", "}")][-1] == f'msg": "{sentence}'
    steps = [line for line in lines if line.startswith("00:00:0")]
    assert steps == (["00:00:01 Attached gpu-node-0: device GPU-node-0 (A100 40G) attached to node node-0",
                      "00:00:01 PodBound default/p: to node n1",
                      "00:00:02 Attached gpu-node-0: device GPU-node-0 (A100 40G) attached to node node-0",
                      "00:00:03 Attached gpu-node-1: device GPU-node-1 (A100 40G) attached to node node-1"]
                     if options else [])
    assert '"about"' not in done.output


def test_nodes_without_their_part_fail_the_run_and_the_sentence_is_last(tmp_path: Path) -> None:
    variables, tasks = tail("attach", "Work on the nodes until the pass has ended")
    outcome, sentence = RUNS["attached"]
    given = {**variables, "attach_pass": outcome.as_result(), "node_unserved": {"node-1": "it is off"}}
    done = play(tmp_path, [{"name": "Attach", "hosts": "localhost", "connection": "local", "gather_facts": False,
                            "tasks": tasks, "vars": given}], {})
    assert done.status != 0
    assert done.failures == ["The work on some nodes did not finish, and the status of their devices was not updated. "
                             "node-1: it is off"]
    assert done.tasks[-1][1]["msg"] == sentence


def test_plan_says_what_waits_and_who_does_it(tmp_path: Path) -> None:
    variables, tasks = tail("plan", "Report what would be done")
    of = {"led": Outcome(True, (ACTION,), WAITS, {}, led_by=("vm/1", "vm/2")), "free": Outcome(False, (), (), {})}
    ends = play_each(tmp_path, {key: Question(tasks, {**variables, "plan_pass": outcome.as_result()})
                                for key, outcome in of.items()})
    said = {key: [result["msg"] for name, result in well(done).tasks if name.startswith("Report")
                  and isinstance(result.get("msg"), str) and "results" not in result] for key, done in ends.items()}
    assert [each for each in said["led"] if "completed" not in each] == [
        "SetSize: 1 x A100 wanted on node n1", "default/a waits for 1 x A100", "default/b waits for 1 x H100",
        "vm/1, vm/2 holds the Leases and does this by itself"]
    assert said["free"][-1] == "No controller runs. The playbook attach does this"
