# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables in docs/whatif.md are what is printed for the cluster that the page describes."""

from __future__ import annotations

import random
import re
import typing as t
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif import capture_file
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.answer import answer
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.capture import Capture
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.changes import CHANGES, changed
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.comparison import Comparison
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.past_arrivals import Came, PastArrivals
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.redaction import LEFT_OUT
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.load import drawn, read_load
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.simulation import (
    compared,
    read_question,
)
from ansible_collections.composable.infra.tests.bench.whatif import seconds
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, row
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.conftest import MANAGER
from ansible_collections.composable.infra.tests.unit.reconcile.whatif.conftest import TakeCapture, at_work

ROOT = Path(__file__).parents[4]
PAGE, EXAMPLES = ROOT / "docs" / "whatif.md", ROOT / "examples" / "first-hour"
Json = dict[str, t.Any]


def blocks(kind: str) -> list[str]:
    """Code of a kind on the page, in order."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def questions() -> list[Json]:
    """Each example on the page."""
    return [yaml.safe_load(text) for text in blocks("yaml")]


@pytest.fixture
def described(held: Bench) -> Bench:
    """Two nodes, two free devices; one pod works on node-0, one waits for three devices."""
    held.fabric.others, held.fabric.free_count = ("machine-1",), 2
    held.put(gated_pods.node("node-1", "machine-1"))
    at_work(held)
    gated_pods.ask(held, "large", 3)
    return held


@pytest.fixture
def capture(described: Bench, captured: TakeCapture) -> Capture:
    """Of that cluster, a minute after its pods came: how long one still runs is told by its age."""
    found = captured(described, EngineConfig.from_dict({
        "device_info": [row(0, A100, "a100")], "fabric": MANAGER, "node_operations": "ssh", "unserved": "wait"}))
    taken = float(int(found.taken))
    came = {"creationTimestamp": format_time(taken - 60.0)}
    return replace(found, taken=taken).with_objects(
        pods=[{**pod, "metadata": {**pod["metadata"], **came}} for pod in found.of("pods")])


@pytest.mark.parametrize("number", range(2))
def test_tables_are_what_is_printed(capture: Capture, number: int) -> None:
    after = changed(capture, questions()[number]["composable_whatif_changes"])
    assert blocks("text")[number] == "\n".join(Comparison(answer(capture), answer(after)).table()) + "\n"


def test_the_table_of_the_replay_is_what_is_printed(capture: Capture) -> None:
    question = questions()[2]
    found = compared(capture, changed(capture, question["composable_whatif_changes"]),
                     question["composable_whatif_simulate"])
    assert blocks("text")[2] == "\n".join(found["table"]) + "\n"


def test_every_example_has_its_table_but_the_one_of_the_day_before() -> None:
    assert (len(questions()), len(blocks("text"))) == (4, 3)


def test_the_capture_of_the_first_hour_is_of_that_cluster(capture: Capture) -> None:
    example = capture_file.read(str(EXAMPLES / "capture.json"))
    question = yaml.safe_load((EXAMPLES / "question.yml").read_text(encoding="utf-8"))["composable_whatif_changes"]
    tables = [Comparison(answer(found), answer(changed(found, question))).table() for found in (example, capture)]
    assert tables[0] == tables[1]


def test_the_day_before_is_a_load(capture: Capture) -> None:
    question = read_question(questions()[3]["composable_whatif_simulate"])
    of = replace(capture, past=PastArrivals((Came(capture.taken - 7200.0, "default", A100, 1),)))
    (came,) = drawn(read_load(question.load, of, "load", question.hours), question.hours, random.Random(1))
    assert 21 * 3600 < came.at < 23 * 3600


def test_the_page_names_every_change_and_all_that_is_left_out() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert [name for name in CHANGES if f"| `{name}` |" not in text] == []
    assert [what for what in LEFT_OUT if what not in text] == []


def test_the_bench_asks_what_it_says() -> None:
    _took, table = seconds(nodes=3, claims=9, free=5)
    assert [line.split() for line in table[:4]] == [
        ["BEFORE", "AFTER"], ["claims", "served", "0", "0"], ["claims", "placed", "0", "5"],
        ["claims", "waiting", "0", "4"]]
