# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stored sums are bounded, lose nothing when they are folded, and are read as they were written."""

from __future__ import annotations

import base64
import json
import random
import zlib

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.sums import (
    DAY,
    DAYS,
    HOUR,
    HOURS,
    MOST_KEYS,
    MOST_ROWS,
    OTHER,
    Counted,
    Place,
    Rows,
    Stored,
    Sum,
    hours,
    of_text,
    together,
)

NOW = 20_000.0 * DAY + 13 * HOUR
CONFIG_MAP_BYTES = 1_000_000


def total(table: Rows) -> Sum:
    """The sum of all rows."""
    found = Sum()
    for row in table.values():
        found = found.plus(row)
    return found


def test_time_is_divided_at_full_hours() -> None:
    assert [*hours(NOW - 10, NOW + HOUR + 5)] == [
        (NOW - HOUR, 10.0), (NOW, float(HOUR)), (NOW + HOUR, 5.0)]
    assert [*hours(NOW, NOW)] == []


def test_old_hours_become_days_and_old_days_become_one() -> None:
    begins = [int(NOW) - number * HOUR for number in range((DAYS + 10) * 24)]
    table = {Place(begin, HOUR, "red", "m", ""): Sum(1.0, 2.0, 3) for begin in begins}
    found = together([table], NOW)
    assert total(found) == total(table)
    lengths = sorted(place.length for place in found)
    assert (lengths.count(HOUR), lengths.count(DAY), lengths.count(0)) == (HOURS + 1, DAYS - 2, 1)
    assert together([found], NOW) == found


def test_rows_of_a_bucket_are_bounded_and_others_are_summed() -> None:
    table = {Place(int(NOW), HOUR, f"ns-{number}", "m", "x"): Sum(1.0) for number in range(MOST_ROWS + 50)}
    found = together([table], NOW)
    assert len(found) == MOST_ROWS + 1
    assert found[Place(int(NOW), HOUR, OTHER, "m", "")] == Sum(50.0)
    again = together([found, {Place(int(NOW), HOUR, "", "m", ""): Sum(idle=1.0)}], NOW)
    assert total(again) == Sum(MOST_ROWS + 50.0, 1.0), "idle time has a place of its own"


def test_largest_table_fits_a_config_map() -> None:
    """Every bucket is full, with the numbers and the names of a busy cluster."""
    chance = random.Random(1)
    buckets = [(int(NOW) - number * HOUR, HOUR) for number in range(HOURS + 1)]
    buckets += [(int(NOW // DAY - number) * DAY, DAY) for number in range(3, DAYS)]
    names = [f"team-{chance.randrange(10**6)}-production" for _number in range(MOST_ROWS)]
    table = {Place(*bucket, name, "NVIDIA-A100-PCIE-40GB", "research"):
             Sum(chance.random() * 1e6, chance.random() * 1e6, chance.randrange(1000))
             for bucket in buckets for name in names}
    assert len(table) > 20_000
    attaches = {f"{chance.randrange(2**40):010x}": NOW - chance.randrange(500) for _number in range(2 * MOST_KEYS)}
    keys = Counted().plus(attaches, NOW)
    assert len(keys.keys) == MOST_KEYS
    stored = Stored(together([table], NOW), NOW, NOW, "w", "1", 2.5, keys)
    text = stored.text()
    assert len(text) < CONFIG_MAP_BYTES
    assert of_text(text).uncertain == 2.5
    assert total(of_text(text).table).used == pytest.approx(total(table).used)


def test_text_is_read_as_it_was_written() -> None:
    stored = Stored({Place(int(NOW), HOUR, "red", "m", "x"): Sum(1.25, 0.5, 2)}, NOW - 5, NOW, "w", "77", 1.0,
                    Counted(NOW - 600, {"0a": NOW - 1.5, "0b": NOW}))
    assert of_text(stored.text()) == stored
    assert of_text("") == Stored()


def test_text_of_an_earlier_release_counts_all_attaches_up_to_its_moment() -> None:
    told = json.loads(zlib.decompress(base64.b64decode(Stored(until=NOW).text())))
    del told["counted"]
    found = of_text(base64.b64encode(zlib.compress(json.dumps(told).encode())).decode())
    assert found.counted.has("any", NOW)
    assert not found.counted.has("any", NOW + 0.001)


@pytest.mark.parametrize("text", ["x", "e30=", "eJw=", "ü", "eJyrViouSSwpVrJSMlSqBQAd4wR8"])
def test_damaged_text_is_one_error(text: str) -> None:
    with pytest.raises(ValueError, match="it has no sums of usage"):
        of_text(text)
