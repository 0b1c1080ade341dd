# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a page may ask is checked and bounded before anything is started for it."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.controller.ui.whatif.question import MOST_PODS, BadQuestion, read_question
from ansible_collections.composable.infra.tests.unit.planning.builders import A100

HOLD = {"change": "hold", "seconds": "120"}


def test_more_devices_of_a_model() -> None:
    found = read_question({"change": "add_devices", "model": A100, "fabric": "1", "count": "8"})
    assert found.changes == ({"change": "add_devices", "model": A100, "fabric": 1, "count": 8},)
    assert found.simulate is None


def test_another_hold_time() -> None:
    assert read_question(HOLD).changes == ({"change": "settings", "settings": {"device_no_removal_duration": 120}},)
    assert read_question({**HOLD, "seconds": "0"}).changes[0]["settings"] == {"device_no_removal_duration": 0}


def test_more_pods_with_their_devices() -> None:
    found = read_question({"change": "add_pods", "model": A100, "count": "3", "devices_each": "2"})
    assert found.changes == ({"change": "add_pods", "model": A100, "devices_each": 2, "count": 3},)


def test_who_comes_is_replayed() -> None:
    found = read_question({**HOLD, "model": A100, "per_hour": "12", "hours": "2", "lifetime": "900"}).simulate
    assert found == {"hours": 2.0, "seeds": 3, "load": [
        {"model": A100, "devices_each": 1, "per_hour": 12, "lifetime": 900}]}
    assert read_question({**HOLD, "per_hour": "0"}).simulate is None


@pytest.mark.parametrize(("wrong", "said"), [
    ({}, "change: '' is not allowed. It must be one of add_devices, add_pods, hold"),
    ({"change": "drain_node"}, "change: 'drain_node' is not allowed"),
    ({"change": "add_devices"}, "count is required for this change"),
    ({"change": "hold"}, "seconds is required for this change"),
    ({**HOLD, "node": "node-0"}, "node: 'node-0' is not allowed. The fields of a question are change, model, fabric"),
    ({**HOLD, "seconds": "604801"}, "seconds: '604801' is not allowed. It must be a whole number from 0 to 604800"),
    ({**HOLD, "seconds": "-1"}, "must be a whole number from 0"),
    ({**HOLD, "seconds": "1e3"}, "must be a whole number from 0"),
    ({**HOLD, "seconds": "٣"}, "must be a whole number from 0"),
    ({**HOLD, "seconds": "9" * 5000}, "must be a whole number from 0"),
    ({"change": "add_pods", "count": "1001"}, "from 1 to 1000"),
    ({"change": "add_pods", "count": "1", "devices_each": "33"}, "from 1 to 32"),
    ({**HOLD, "hours": "25"}, "from 1 to 24"),
    ({**HOLD, "lifetime": "0"}, "from 1 to 604800"),
    ({**HOLD, "model": "x" * 201}, "It may have at most 200 characters"),
    ({**HOLD, "per_hour": "101", "hours": "20"}, f"a replay of 20 h may have at most {MOST_PODS} pods"),
])
def test_what_is_refused_is_named(wrong: dict[str, str], said: str) -> None:
    with pytest.raises(BadQuestion) as refused:
        read_question(wrong)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 300
