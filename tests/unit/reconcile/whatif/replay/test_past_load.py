# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arrivals of the day before a capture once more: those that are known as they were, of the others their number."""

from __future__ import annotations

import random
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.capture import Capture
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.options import BadChange
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.past_arrivals import Came, PastArrivals
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.load import (
    Arrival,
    drawn,
    read_load,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.simulation import (
    read_question,
    simulated,
)
from ansible_collections.composable.infra.tests.bench.whatif import MODEL, made_up

Json = dict[str, t.Any]
DAY = 24


def capture(*came: Came, served: dict[tuple[int, str], int] | None = None) -> Capture:
    """Two nodes with free devices, and what is known of the day before. Moments and hours count from its beginning."""
    made = made_up(2, 4)
    first = int(made.taken // 3600) - DAY
    known = tuple(replace(each, at=first * 3600 + each.at) for each in came)
    counted = {(first + hour, namespace): count for (hour, namespace), count in (served or {}).items()}
    return replace(made, past=PastArrivals(known, counted))


def arrivals(of: Capture, hours: float = DAY, seed: int = 1, **load: t.Any) -> list[Arrival]:
    return drawn(read_load([{"captured": True, **load}], of, "load", hours), hours, random.Random(seed))


def devices(arrival: Arrival) -> int:
    (claim,) = arrival.pods.claims.values()
    return int(claim["spec"]["devices"]["requests"][0]["exactly"]["count"])


def test_who_is_known_comes_as_it_came() -> None:
    of = capture(Came(90.0, "default", MODEL, 2, 300.0), Came(7300.0, "default", MODEL, 1, 60.0))
    found = arrivals(of, lifetime=1.0)
    assert [(each.at, each.lifetime, devices(each)) for each in found] == [(90.0, 300.0, 2), (7300.0, 60.0, 1)]


def test_who_was_counted_comes_at_some_moment_of_its_hour() -> None:
    of = capture(Came(10.0, "default", MODEL, 3, 50.0), served={(0, "default"): 1, (2, "default"): 40})
    found = arrivals(of, lifetime=600.0)
    assert [each.at for each in found[:1]] == [10.0]
    assert len(found) == 41
    assert all(2 * 3600 <= each.at <= 3 * 3600 for each in found[1:])
    assert {devices(each) for each in found} == {3}
    assert len({each.at for each in found}) == 41
    assert 100 < sum(each.lifetime for each in found[1:]) / 40 < 2000


def test_devices_are_those_of_the_same_namespace() -> None:
    of = capture(Came(10.0, "default", MODEL, 3), Came(11.0, "gone", MODEL, 1), served={(5, "default"): 30})
    assert {devices(each) for each in arrivals(of, lifetime=60.0) if each.at > 3600} == {3}


def test_claims_whose_devices_are_not_known_are_like_others() -> None:
    """One that waits is in no count, so it comes beside those that were served."""
    of = capture(Came(10.0, "default", MODEL, 2), Came(20.0, "default"), served={(0, "default"): 1})
    assert [(each.at, devices(each)) for each in arrivals(of, lifetime=60.0)] == [(10.0, 2), (20.0, 2)]


def test_where_nobody_is_known_the_load_says_the_devices_or_they_are_as_anybodys() -> None:
    of = capture(Came(10.0, "gone", MODEL, 3), served={(5, "default"): 4})
    assert {devices(each) for each in arrivals(of, lifetime=60.0)} == {3}
    found = arrivals(of, lifetime=60.0, model=MODEL, devices_each=2)
    assert [devices(each) for each in found] == [3, 2, 2, 2, 2]
    assert {each.pods.pod["metadata"]["namespace"] for each in found} == {"default"}


def test_enough_lifetimes_take_the_place_of_a_mean() -> None:
    known = [Came(float(n), "default", MODEL, 1, 100.0 + n) for n in range(5)]
    found = arrivals(capture(*known, served={(3, "default"): 50}))
    assert {each.lifetime for each in found} == {100.0, 101.0, 102.0, 103.0, 104.0}
    with pytest.raises(BadChange, match="the capture has only 4 lifetimes, and 5 are needed"):
        arrivals(capture(*known[:4]))


def test_a_shape_is_needed_where_nobodys_devices_are_known() -> None:
    of = capture(served={(0, "default"): 2})
    found = arrivals(of, lifetime=60.0, model=MODEL, devices_each=2)
    assert [devices(each) for each in found] == [2, 2]


def test_more_than_a_day_begins_the_day_anew() -> None:
    of = capture(Came(90.0, "default", MODEL, 1, 5.0))
    assert [each.at for each in arrivals(of, hours=49.0, lifetime=1.0)] == [
        90.0, 90.0 + DAY * 3600, 90.0 + 2 * DAY * 3600]


def test_the_hour_of_the_capture_and_what_is_older_than_a_day_do_not_count() -> None:
    of = capture(Came(-5.0, "default", MODEL, 1), Came(DAY * 3600.0 + 1.0, "default", MODEL, 1),
                 Came(100.0, "default", MODEL, 1), served={(DAY, "default"): 9, (-1, "default"): 9})
    assert [each.at for each in arrivals(of, lifetime=1.0)] == [100.0]


def test_a_capture_that_knows_nobody_is_refused() -> None:
    with pytest.raises(BadChange,
                       match=r"load\[0\].captured: True is not usable: the capture has no arrivals of the day before"):
        arrivals(capture(), lifetime=60.0)


@pytest.mark.parametrize("more", [{"per_hour": 3.0}, {"arrivals": [[1, 2]]}, {"burst": 2}])
def test_what_does_not_belong_together_is_refused(more: Json) -> None:
    with pytest.raises(BadChange, match="a load with captured takes"):
        arrivals(capture(Came(1.0, "default", MODEL, 1)), lifetime=60.0, **more)


def test_the_same_seed_draws_the_same() -> None:
    of = capture(Came(10.0, "default", MODEL, 1), served={(0, "default"): 9, (1, "default"): 9})
    one, same, other = (arrivals(of, lifetime=60.0, seed=seed) for seed in (1, 1, 2))
    assert [(each.at, each.lifetime) for each in one] == [(each.at, each.lifetime) for each in same]
    assert [each.at for each in one] != [each.at for each in other]


def test_they_are_replayed() -> None:
    of = capture(Came(10.0, "default", MODEL, 1, 60.0), served={(0, "default"): 12, (1, "default"): 12})
    question = read_question({"hours": 3.0, "seeds": 2, "load": [{"captured": True, "lifetime": 30.0}]})
    found = simulated(of, question)
    assert (found.spreads["came"].low, found.spreads["came"].high) == (24, 24)
    assert found.spreads["ran"].low == 24
