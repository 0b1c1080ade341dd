# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the plugin is told to look again."""

from __future__ import annotations

from ansible_collections.composable.infra.controller.agent.vendor_plugin.restart_policy import (
    COMING_SECONDS,
    ON_BUS_SECONDS,
    PREPARING_SECONDS,
    Decision,
    RestartPolicy,
    Situation,
)


def no() -> bool:
    return False


def yes() -> bool:
    return True


def never() -> bool:
    raise AssertionError("nobody had to ask")


def test_nothing_waits_nothing_happens() -> None:
    assert RestartPolicy().decide(100.0, Situation(False, on_bus=True, coming=True), never) == Decision()


def test_one_device_alone_waits_for_nobody() -> None:
    assert RestartPolicy().decide(100.0, Situation(True, last_step=99.9, last_arrival=99.9), no) == Decision(True)


def test_one_that_is_being_brought_up_is_waited_for_while_it_gets_on() -> None:
    policy, seen = RestartPolicy(), Situation(True, on_bus=True, last_step=100.0)
    assert policy.decide(101.0, seen, never) == Decision(until=100.0 + ON_BUS_SECONDS)
    assert policy.decide(100.0 + ON_BUS_SECONDS, seen, no).restart


def test_one_that_is_coming_is_waited_for_a_moment_after_the_last_arrival() -> None:
    policy, seen = RestartPolicy(), Situation(True, coming=True, last_arrival=100.0)
    assert policy.decide(100.5, seen, never) == Decision(until=100.0 + COMING_SECONDS)
    assert policy.decide(100.0 + COMING_SECONDS, seen, no).restart


def test_a_claim_that_is_being_prepared_is_waited_for_but_not_for_ever() -> None:
    policy, seen = RestartPolicy(), Situation(True)
    assert policy.decide(100.0, seen, yes) == Decision(until=100.0 + PREPARING_SECONDS)
    assert policy.decide(105.0, seen, yes) == Decision(until=100.0 + PREPARING_SECONDS)
    assert policy.decide(106.0, seen, no).restart
    assert policy.decide(200.0, seen, yes) == Decision(until=200.0 + PREPARING_SECONDS)
    assert policy.decide(200.0 + PREPARING_SECONDS, seen, yes).restart
