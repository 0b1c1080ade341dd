# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disk of etcd is full: the API server answers reads and refuses every write."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.tests.chaos.models.api_server import Call, Refusal
from ansible_collections.composable.infra.tests.stories.ground import telling

FULL = "etcdserver: mvcc: database space exceeded"


def test_nothing_is_requested_while_nothing_can_be_written_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with telling() as story:
        # A pod computes, and a second one waits for a device when etcd runs full.
        story.start("train")
        asked = len(story.world.manager.log)
        answer = story.world.server.handle

        def refuse_writes(call: Call) -> bytes:
            if call.method != "GET":
                raise Refusal(500, "InternalError", FULL)
            return answer(call)

        monkeypatch.setattr(story.world.server, "handle", refuse_writes)
        leader = story.engine
        story.submit("second")

        # The leader cannot renew its Lease and ends (alert ComposableNoLeader). The log has the
        # server's message.
        took = story.wait("nobody leads", lambda: story.world.controllers.leader() is None)
        assert took < 20.0
        story.let_pass(60.0)
        assert any(FULL in entry["message"] for entry in leader.reporter.history)

        # No intent can be stored, so the CDI Manager gets no request. The running pod is not
        # affected.
        assert len(story.world.manager.log) == asked
        assert story.runs("train")

        # The administrator makes room in etcd. The rest continues by itself.
        monkeypatch.undo()
        story.wait("pod second runs", lambda: story.runs("second"))
        story.end("train")
        story.end("second")
        story.wait("all devices are free", story.all_returned)
