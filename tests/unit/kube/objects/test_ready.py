# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The condition Ready: what it says, since when, and about which generation."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects.ready import outdated, with_ready

NOW, BEFORE = "2026-01-02T03:04:05Z", "2026-01-01T00:00:00Z"


def made(generation: int = 3, *conditions: dict[str, Any]) -> tuple[list[dict[str, Any]], int]:
    return [*conditions], generation


@pytest.mark.parametrize(("status", "ready", "reason", "message"), [
    ({"state": "Online", "error": ""}, "True", "Online", ""),
    ({"state": "Running"}, "True", "Running", ""),
    ({"state": "Online", "error": "it is Critical"}, "False", "Online", "it is Critical"),
    ({"state": "Attaching", "error": None}, "False", "Attaching", ""),
    ({"state": "Detaching", "error": "in use"}, "False", "Detaching", "in use"),
    ({"state": ""}, "False", "Pending", ""),
    ({}, "False", "Pending", ""),
])
def test_what_it_says(status: dict[str, Any], ready: str, reason: str, message: str) -> None:
    assert with_ready(*made(), status, NOW) == [{"type": "Ready", "status": ready, "reason": reason, "message": message,
                                                 "observedGeneration": 3, "lastTransitionTime": NOW}]


def test_time_is_that_of_the_last_change_of_the_status() -> None:
    first = with_ready(*made(1), {"state": "Attaching"}, BEFORE)
    (same,) = with_ready(*made(2, *first), {"state": "Attaching", "error": "busy"}, NOW)
    assert (same["lastTransitionTime"], same["message"], same["observedGeneration"]) == (BEFORE, "busy", 2)
    (other,) = with_ready(*made(2, same), {"state": "Online"}, NOW)
    assert (other["lastTransitionTime"], other["status"]) == (NOW, "True")


def test_conditions_of_others_stay_where_they_are() -> None:
    theirs = {"type": "Theirs", "status": "True"}
    old = {"type": "Ready", "status": "False", "lastTransitionTime": BEFORE}
    found = with_ready(*made(1, old, theirs), {"state": "Online"}, NOW)
    assert [condition["type"] for condition in found] == ["Ready", "Theirs"]
    assert found[1] is theirs
    assert [c["type"] for c in with_ready(*made(1, theirs), {"state": "Online"}, NOW)] == ["Theirs", "Ready"]


def test_message_keeps_to_the_limit_of_the_api() -> None:
    (found,) = with_ready(*made(), {"state": "Attaching", "error": "x" * 40000}, NOW)
    assert len(found["message"]) == 32768


@pytest.mark.parametrize(("generation", "observed", "old"), [(3, 2, True), (3, 3, False), (2, 3, False)])
def test_outdated(generation: int, observed: int, old: bool) -> None:
    assert outdated(*made(generation, {"type": "Ready", "observedGeneration": observed})) is old
    assert not outdated(*made(generation, {"type": "Theirs", "observedGeneration": observed}))
    assert not outdated(*made(generation))
