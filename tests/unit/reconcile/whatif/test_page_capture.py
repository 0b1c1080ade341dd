# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page asks about is what the process has seen: its stores answer as a capture of the cluster does."""

from __future__ import annotations

import io
import json
import random
import socket
import subprocess
import sys
import typing as t
from contextlib import closing
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.controller.ui.whatif import program
from ansible_collections.composable.infra.controller.ui.whatif.captured import NOT_SEEN, what_if_of, write_captured
from ansible_collections.composable.infra.controller.ui.whatif.question import read_question
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig, EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.answer import answer
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.changes import changed
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.whatif.agreement_support import (
    RUNS,
    Quiet,
    clear,
    crowd,
)
from ansible_collections.composable.infra.tests.unit.reconcile.whatif.conftest import TakeCapture

Json = dict[str, t.Any]
MORE = {"change": "add_devices", "model": A100, "fabric": "1", "count": "4"}
COMING = {"per_hour": "6", "hours": "1", "lifetime": "300"}


def lines(bench: Bench, config: EngineConfig, **query: str) -> list[str]:
    """What the child process reads."""
    file = io.StringIO()
    bench.look()
    assert write_captured(bench.state, config, read_question(query).as_dict(), file) == ""
    return file.getvalue().splitlines()


def test_stores_answer_as_a_capture_of_the_cluster(
        quiet: Quiet, config: EngineConfig, captured: TakeCapture, rng: random.Random) -> None:
    _engine, bench = quiet
    placed = 0
    for _unused in range(RUNS):
        clear(bench)
        crowd(bench, rng)
        question, found = program.read(lines(bench, config, **MORE))
        taken = replace(captured(bench), taken=found.taken)  # an answer says how long ago something was asked
        assert answer(found) == answer(taken)
        assert answer(changed(found, question["changes"])) == answer(changed(taken, question["changes"]))
        placed += answer(found).counts()["placed"]
    assert placed


def test_answer_has_the_plan_of_today_beside_that_of_the_change(two: Bench, config: EngineConfig) -> None:
    found = program.answered(lines(two, config, **MORE))
    rows = {words: (before, after) for words, before, after in found["plan"]}
    assert rows[f"{A100} free on fabric 1"] == ("0", "4")
    assert "figures" not in found
    assert json.loads(json.dumps(found)) == found


def test_who_comes_is_replayed_with_and_without_the_change(two: Bench, config: EngineConfig) -> None:
    found = program.answered(lines(two, config, **MORE, **COMING))
    rows = {words: (before, after) for words, before, after in found["figures"]}
    assert rows["pods that came"][0] == rows["pods that came"][1] != "0"
    used = [float(text.split()[0]) for text in rows["devices in use, %"]]
    assert used[0] > used[1] > 0.0
    assert (found["hours"], found["seeds"]) == (1.0, 3)
    assert found["namespaces"][0][0] == "default"


def test_what_the_capture_does_not_have_is_refused_by_name(two: Bench, config: EngineConfig) -> None:
    asked = {**MORE, "model": "H1000"}
    with pytest.raises(BadConfig, match=r"changes\[0\]\.model: 'H1000' is not usable"):
        program.answered(lines(two, config, **asked))


def test_where_there_is_nothing_to_replay_it_says_so(quiet: Quiet, config: EngineConfig) -> None:
    _engine, bench = quiet
    assert program.answered(lines(bench, config, change="hold", seconds="5"))["note"] == program.NOTHING_TO_REPLAY
    bench.drop(next(iter(bench.state.nodes.list())))
    assert program.answered(lines(bench, config, change="hold", seconds="5")) == {"error": program.NO_NODES}
    bench.state.snapshot = None
    assert write_captured(bench.state, config, {}, io.StringIO()) == NOT_SEEN


def asked(bench: Bench, config: EngineConfig, **query: str) -> Json:
    """The answer of the child process as it is shipped."""
    bench.look()
    page, connection = socket.socketpair()
    with closing(page):
        what_if_of(bench.state, config).adopt(connection, read_question(query))
        page.settimeout(120)
        return t.cast(Json, json.loads(b"".join(iter(lambda: page.recv(65536), b""))))


def test_child_process_answers_as_the_program_does(two: Bench, config: EngineConfig) -> None:
    found = asked(two, config, **MORE, **COMING)
    expected = program.answered(lines(two, config, **MORE, **COMING))
    assert found["plan"] == expected["plan"]
    assert [row[0] for row in found["figures"]] == [row[0] for row in expected["figures"]]


def test_child_process_says_what_is_wrong_with_a_question(two: Bench, config: EngineConfig) -> None:
    assert "'H1000' is not usable" in asked(two, config, **{**MORE, "model": "H1000"})["error"]


def test_limits_are_those_of_the_child_alone() -> None:
    code = (f"import resource as r; from {program.__name__} import limit; limit(7, 300 << 20); "
            "print(r.getrlimit(r.RLIMIT_CPU), r.getrlimit(r.RLIMIT_DATA), open('/proc/self/oom_score_adj').read())")
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["(7,", "7)", f"({300 << 20},", f"{300 << 20})", "1000"]
