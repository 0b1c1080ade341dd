# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two answers beside each other, as data and as a table."""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.answer import (
    PLACED,
    SERVED,
    WAITING,
    Answer,
    ClaimAnswer,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.comparison import MOST_ROWS, Comparison


def claim(name: str, state: str, node: str = "", says: str = "") -> ClaimAnswer:
    return ClaimAnswer(f"default/{name}", state, node, says)


def answer(*claims: ClaimAnswer, attaches: int = 0, free: int = 4) -> Answer:
    moves = {("node-0", "T4"): attaches} if attaches else {}
    return Answer({each.claim: each for each in claims}, moves, {}, {("T4", 1): free}, ())


SERVED_ALREADY = claim("a", SERVED, "node-0")
BEFORE = answer(SERVED_ALREADY, claim("b", WAITING, "", "1 x T4 on a node"), free=0)
AFTER = answer(SERVED_ALREADY, claim("b", PLACED, "node-1", "node node-1 has room"), claim("c", WAITING, "", "2 x T4"),
               attaches=1, free=1)


def test_the_table_says_what_differs_and_who_waits() -> None:
    assert Comparison(BEFORE, AFTER).table() == [
        "                     BEFORE  AFTER",
        "claims served        1       1",
        "claims placed        0       1",
        "claims waiting       1       1",
        "claims released      0       0",
        "T4 to attach         0       1",
        "T4 free on fabric 1  0       1",
        "",
        "CLAIM      BEFORE   AFTER             WHY",
        "default/b  waiting  placed on node-1  node node-1 has room",
        "default/c  -        waiting           2 x T4",
    ]


def test_where_nothing_differs_and_nobody_waits_there_are_only_sums() -> None:
    same = answer(SERVED_ALREADY)
    assert Comparison(same, same).table()[-1] == "T4 free on fabric 1  4       4"
    assert Comparison(same, same).differs() == []


def test_a_claim_that_is_gone_differs() -> None:
    found = Comparison(BEFORE, answer(SERVED_ALREADY))
    assert found.differs() == ["default/b"]
    assert found.table()[-1] == "default/b  waiting  -      -"


def test_a_node_makes_a_difference_and_another_sentence_none() -> None:
    one, other = answer(claim("a", PLACED, "node-0", "x")), answer(claim("a", PLACED, "node-0", "y"))
    assert Comparison(one, other).differs() == []
    assert Comparison(one, answer(claim("a", PLACED, "node-1", "x"))).differs() == ["default/a"]


def test_a_long_table_is_cut() -> None:
    many = answer(*(claim(f"c-{number:03}", WAITING) for number in range(MOST_ROWS + 5)))
    table = Comparison(answer(), many).table()
    assert table[-1] == "and 5 more"
    assert len([line for line in table if line.startswith("default/")]) == MOST_ROWS


def test_the_result_is_plain_data() -> None:
    found = Comparison(BEFORE, AFTER).as_result()
    assert found["after"]["claims"][1] == {"claim": "default/b", "state": "placed", "node": "node-1",
                                           "says": "node node-1 has room"}
    assert found["after"]["counts"] == {"served": 1, "placed": 1, "waiting": 1, "released": 0}
    assert found["after"]["attaches"] == [{"node": "node-0", "model": "T4", "count": 1}]
    assert found["before"]["free"] == [{"model": "T4", "fabric": 1, "count": 0}]
    assert found["differs"] == ["default/b", "default/c"]
