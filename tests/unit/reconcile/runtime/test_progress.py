# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process is alive while one of its workers goes on, and only then."""

from __future__ import annotations

import threading

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import Key, NodeKey, Result
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.runtime import progress as module
from ansible_collections.composable.infra.plugins.module_utils.runtime.progress import Progress
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench


def test_one_worker_is_stuck_after_its_time_and_no_sooner() -> None:
    clock = [0.0]
    progress = Progress(lambda: clock[0])
    assert progress.stuck() == ""
    with progress.worker():
        assert progress.stuck() == ""
        with progress.at("node node-0"):
            clock[0] = module.STUCK_SECONDS - 1
            assert progress.stuck() == ""
            clock[0] = module.STUCK_SECONDS + 1
            assert "node node-0" in progress.stuck()
        assert progress.stuck() == ""
    assert progress.stuck() == "no worker is left"


def test_engine_with_one_free_worker_goes_on(config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STUCK_SECONDS", 0.05)
    bench, let_go, begun = Bench(), threading.Event(), list[Key]()
    engine = ControllerManager(bench.api.client, bench.fabric, config, events=False)

    def hang(key: Key) -> Result:
        begun.append(key)
        let_go.wait(20)
        return Result()

    engine.workers.reconcilers[NodeKey] = hang
    assert engine.stuck() == ""
    engine.work()
    try:
        engine.queue.add(NodeKey("node-0"))
        bench.wait(lambda: len(begun) == 1, "one at work")
        threading.Event().wait(0.1)
        assert engine.stuck() == ""
        engine.queue.add(NodeKey("node-1"))
        bench.wait(lambda: "all 2 workers" in engine.stuck(), "both are stuck")
        let_go.set()
        bench.wait(lambda: engine.stuck() == "", "they go on")
    finally:
        let_go.set()
        engine.stop()
    assert engine.stuck() == ""
