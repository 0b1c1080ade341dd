# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts of waits say the same as the waits themselves, however they were added, and come back from their text."""

from __future__ import annotations

import itertools
import random

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.day_of_waits import (
    EDGES,
    HOUR,
    HOURS,
    MOST_NAMESPACES,
    OTHERS,
    Rows,
    Stored,
    counted,
    last_day,
    of_text,
    together,
    waits_of,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.histogram import BOUNDS, waits
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import Span, Timeline

NOW = 500_000 * HOUR
NUMBERS = itertools.count()


def served(seconds: float, namespace: str = "default", ended: float = NOW, step: str = "attach") -> Timeline:
    """A claim that waited so long."""
    began = ended - seconds
    return Timeline(f"{namespace}/claim", str(next(NUMBERS)), "node-0", began, (Span(step, began, ended),))


def table(*timelines: Timeline) -> Rows:
    return together(*map(counted, timelines))


def test_spread_is_that_of_the_waits_and_quantiles_are_the_next_edge(rng: random.Random) -> None:
    claims = [served(rng.lognormvariate(0.0, 2.0), step=rng.choice(["attach", "bind"])) for _each in range(500)]
    for exact, told in zip(waits(claims), waits_of(table(*claims)), strict=True):
        assert (told.step, told.count, told.counts) == (exact.step, exact.count, exact.counts)
        assert told.longest == exact.longest
        for one, other in ((exact.median, told.median), (exact.p95, told.p95)):
            assert one <= other <= one * 1.34, "edges are a third apart at most"


def test_bounds_of_the_histogram_are_edges() -> None:
    assert set(BOUNDS) <= set(EDGES)
    assert list(EDGES) == sorted(EDGES)


@pytest.mark.parametrize("seconds", [0.0, 0.0004, 3.0, 123_456.0])
def test_any_wait_is_counted(seconds: float) -> None:
    ended = float(NOW)
    only = Timeline("a/b", "u", "n", ended, (Span("attach", 0.0, seconds),))
    first, _total = waits_of(counted(only))
    assert (first.count, sum(first.counts), first.median, first.longest) == (1, 1, seconds, seconds)


def test_it_does_not_matter_in_which_parts_they_were_counted(rng: random.Random) -> None:
    claims = [served(rng.uniform(0.001, 50.0), rng.choice("abc"), NOW + rng.uniform(0, 3) * HOUR)
              for _each in range(60)]
    cut = rng.randrange(60)
    assert together(table(*claims[:cut]), table(*claims[cut:])) == table(*claims)


def test_claim_without_hops_counts_for_nothing() -> None:
    assert counted(Timeline("a/b", "u", "n", 0.0)) == {}


def test_a_namespace_sees_its_own_counts() -> None:
    found = table(served(1.0, "mine"), served(2.0, "mine"), served(40.0, "rival"))
    own = waits_of(found, "mine")
    assert [(row.step, row.count, row.longest) for row in own] == [("attach", 2, 2.0), ("total", 2, 2.0)]
    assert [row.count for row in waits_of(found)] == [3, 3]
    assert waits_of(found, "nobody") == waits_of(found, "") == []


def test_many_namespaces_count_for_the_whole_alone() -> None:
    found = table(*(served(1.0, f"ns-{number:03}") for number in range(MOST_NAMESPACES + 5)))
    assert len({namespace for _hour, namespace, _hop in found}) == MOST_NAMESPACES + 1
    assert waits_of(found)[0].count == MOST_NAMESPACES + 5
    assert [row.count for row in waits_of({key: row for key, row in found.items() if key[1] == OTHERS})] == [5, 5]
    assert together(found, table(served(1.0, "late"))).keys() == found.keys()


def test_what_is_older_than_a_day_goes() -> None:
    kept, gone = served(1.0, ended=NOW - HOURS * HOUR), served(2.0, ended=NOW - HOURS * HOUR - 1.0)
    assert last_day(table(kept, gone), NOW) == table(kept)


def test_text_gives_the_table_back(rng: random.Random) -> None:
    claims = [served(round(rng.lognormvariate(0.0, 3.0), 3), rng.choice("abc")) for _each in range(50)]
    exact = Stored(table(*claims), "writer", 7)
    found = of_text(exact.text())
    assert (found.writer, found.number) == ("writer", 7)
    assert {place: row.counts for place, row in found.table.items()} == {
        place: row.counts for place, row in exact.table.items()}
    assert of_text(found.text()) == found
    assert of_text("") == Stored()


def test_the_largest_table_fits_into_a_configmap(rng: random.Random) -> None:
    """A megabyte is the limit: every namespace that is named, in every hour, with waits of all kinds."""
    claim_steps = ("plan", "request", "attach", "slice", "gate", "bind", "start")

    def claim(space: int, hour: int) -> Timeline:
        ended = NOW + hour * HOUR
        return Timeline(f"{'n' * 20}-{space:02}/c", "u", "n", 0.0, tuple(
            Span(step, ended - rng.lognormvariate(0, 1.5), ended) for step in claim_steps))

    claims = [claim(space, hour) for space in range(MOST_NAMESPACES) for hour in range(HOURS + 1) for _each in range(6)]
    assert len(Stored(table(*claims), "writer", 1).text()) < 500_000


@pytest.mark.parametrize("text", ["what?", "[]", '{"version":2,"writer":"","number":0,"hours":{}}',
                                  '{"version":1,"writer":"","number":0,"hours":{"1":{"a":{"attach":[1,[0]]}}}}',
                                  '{"version":1,"writer":"","number":0,"hours":{"1":{"a":{"attach":[1,[999,1]]}}}}',
                                  '{"version":1,"writer":"","number":0,"hours":{"1":{"a":{"attach":[1,[1,-4]]}}}}',
                                  '{"version":1,"writer":"","number":0,"hours":{"x":{"a":{"attach":[1,[1,4]]}}}}'])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it has no table of waits"):
        of_text(text)


def test_hops_of_another_version_are_left_out() -> None:
    text = Stored(table(served(1.0)), "w", 1).text().replace('"attach"', '"teleport"')
    assert [row.step for row in waits_of(of_text(text).table)] == ["total"]
