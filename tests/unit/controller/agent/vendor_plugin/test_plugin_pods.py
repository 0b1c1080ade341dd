# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a plugin looked at the devices, from the status of its pod as a kubelet writes it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.controller.agent.vendor_plugin.plugin_pods import began_after, is_starting
from ansible_collections.composable.infra.tests.unit.controller.agent.fake_operations import pod

Json = dict[str, t.Any]
MOMENT = 1_000_000_010.4
RUNS_BEFORE: Json = {"state": {"running": {"startedAt": "2001-09-09T01:46:49Z"}}}
RUNS_SINCE_THIS_SECOND: Json = {"state": {"running": {"startedAt": "2001-09-09T01:46:50Z"}}, "restartCount": 3}
RUNS_SINCE_LATER: Json = {"state": {"running": {"startedAt": "2001-09-09T01:46:51Z"}}}
CREATED: Json = {"state": {"waiting": {"reason": "ContainerCreating"}}, "restartCount": 0}
BACK_OFF: Json = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 4,
                  "lastState": {"terminated": {"exitCode": 1}}}
ENDED: Json = {"state": {"terminated": {"exitCode": 1}}, "restartCount": 0}


@pytest.mark.parametrize(("statuses", "after", "successor_after"), [
    ([RUNS_BEFORE], False, False),
    ([RUNS_SINCE_THIS_SECOND], False, True),
    ([RUNS_SINCE_LATER], True, True),
    ([RUNS_SINCE_LATER, RUNS_BEFORE], False, False),
    ([RUNS_SINCE_LATER, BACK_OFF], False, False),
    ([RUNS_SINCE_LATER, CREATED], False, False),
    ([], False, False)])
def test_begun_after_a_moment(statuses: list[Json], after: bool, successor_after: bool) -> None:
    found = pod("plugin", containerStatuses=statuses)
    assert began_after(found, MOMENT) == after
    assert began_after(found, MOMENT, is_successor=True) == successor_after


@pytest.mark.parametrize(("statuses", "starting"), [
    ([], True), ([CREATED], True), ([RUNS_SINCE_LATER, CREATED], True), ([RUNS_BEFORE], False),
    ([BACK_OFF], False), ([ENDED], False), ([CREATED, BACK_OFF], False)])
def test_about_to_begin(statuses: list[Json], starting: bool) -> None:
    assert is_starting(pod("plugin", containerStatuses=statuses)) == starting
