# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One claim's way through the code, sampled where requests are written to a socket: only files that
docs/contributors/code.md lists, and few calls deep.

The engine runs in the test's own process. What a claim does not wait for is left out: events, records, pools that no
held pod takes devices from, the status of requests, the look at the fabric and the first log-in.
"""

from __future__ import annotations

import sys
import threading
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, pod_body
from ansible_collections.composable.infra.plugins import module_utils
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.net.client import HttpClient
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey, NodeKey, NominationsKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.tests.e2e.support.support import wait_for
from ansible_collections.composable.infra.tests.unit.house.walk import UTILS, listed

STAGE: dict[str, t.Any] = {"nodes": 1, "devices": {A100: 2}}
ROOT = Path(next(iter(module_utils.__path__)))
# A claim waits for these: keys of workers, and the threads of pools that do a part of such a key's work.
WAITED_FOR = (NodeKey, GatesKey, NominationsKey)
POOLS = ("fabric", "write", "gate", "reschedule", "nominate")
MOST_FRAMES = 11


class Samples:
    """Files of ours on the stacks of requests, and the deepest stack."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.deepest: list[str] = []
        self._key = threading.local()

    def take(self, frame: FrameType | None) -> None:
        """Take down one stack, if a claim waits for its request."""
        name = threading.current_thread().name
        worker = isinstance(getattr(self._key, "value", None), WAITED_FOR)
        if not worker and not name.startswith(POOLS):
            return
        stack = []
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(ROOT):
                stack.append(f"{path.relative_to(ROOT).as_posix()}:{frame.f_code.co_name}")
            frame = frame.f_back
        self.files.update(UTILS + entry.partition(":")[0] for entry in stack)
        if len(stack) > len(self.deepest):
            self.deepest = stack[::-1]

    def follow(self, engine: ControllerManager) -> None:
        """Know which key each worker works on."""
        for kind, reconcile in list(engine.workers.reconcilers.items()):
            engine.workers.reconcilers[kind] = self._noting(reconcile)

    def _noting(self, reconcile: t.Callable[[t.Any], t.Any]) -> t.Callable[[t.Any], t.Any]:
        def work(key: t.Any) -> t.Any:
            self._key.value = key
            try:
                return reconcile(key)
            finally:
                self._key.value = None

        return work


@contextmanager
def sampled(stage: Stage, handover: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Samples]:
    """An engine at work that serves the stage; its requests are sampled."""
    samples, request = Samples(), HttpClient.request

    def sampling(self: HttpClient, *args: t.Any, **more: t.Any) -> t.Any:
        samples.take(sys._getframe(1))
        return request(self, *args, **more)

    handovers = {"handover": handover, "handover_namespaces": {"default": handover}}
    config = EngineConfig.from_dict({**stage.config(), **handovers})
    client = Client(Connection.load(str(stage.kubeconfig)))
    engine = ControllerManager(client, config.manager(), config)
    samples.follow(engine)
    try:
        engine.watch()
        wait_for("the engine has read everything", engine.ready)
        monkeypatch.setattr(HttpClient, "request", sampling)
        engine.work()
        yield samples
    finally:
        engine.stop()
        client.close()


def run_pod(stage: Stage, name: str, gated: bool) -> None:
    """A pod with a claim of its own, until it runs."""
    stage.claim(name, A100)
    body = pod_body(name, None)
    if gated:
        body["spec"]["schedulingGates"] = [{"name": pods.GATE}]
    stage.client.create(PODS, body)
    wait_for(f"{name} runs", lambda: (stage.client.get(PODS, name, "default").get("status") or {}).get(
        "phase") == "Running")


@pytest.mark.parametrize("handover", ["reschedule", "gated"])
def test_a_claim_passes_only_through_files_that_are_listed(
    stage: Stage, handover: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {*listed("reschedule"), *(listed("gated") if handover == "gated" else ())}
    with sampled(stage, handover, monkeypatch) as samples:
        run_pod(stage, handover, gated=handover == "gated")
    print("\n".join(samples.deepest))
    assert sorted(samples.files - known) == []
    assert f"{UTILS}fabric/drivers/fm/driver.py" in samples.files, "the manager was asked on this way"
    # The socket's own frame is one more: HttpConnection.ask below HttpClient.request.
    assert len(samples.deepest) + 2 <= MOST_FRAMES
