# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the engine for a module: to plan, to explain, or until all claims that can be served are
served."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ...kube.client.verbs import Client
from ...planning.actions import WaitReason
from ..config import ROLES, EngineConfig
from ..manager.controller_manager import ControllerManager
from ..manager.leader_election import LeaderElection
from ..preflight import check_cluster
from . import summary
from .dry_run import difference, forecast
from .explain import explain, explain_forecast
from .quiescence import run_until_quiet

TICK, LOOK_SECONDS = 0.02, 0.25


class NotReady(Exception):
    """The cluster or the CDI Manager could not be read in time. The message names the problem."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a run, or forecast of it in check mode."""

    changed: bool
    actions: tuple[Mapping[str, t.Any], ...]
    wait_reasons: tuple[WaitReason, ...]
    diff: Mapping[str, t.Any]
    settled: bool = True
    history: tuple[Mapping[str, t.Any], ...] | None = None
    led_by: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """Return the run in one sentence."""
        waiting = [reason.claim for reason in self.wait_reasons]
        if self.history is None:
            return summary.planned(self.actions, waiting, self.led_by)
        return summary.done(self.history, waiting, self.led_by)

    def as_result(self) -> dict[str, t.Any]:
        """Return the result of a module."""
        result: dict[str, t.Any] = {"changed": self.changed, "actions": list(self.actions), "diff": dict(self.diff),
                                    "verdicts": [wait_reason_result(v) for v in self.wait_reasons],
                                    "settled": self.settled, "led_by": list(self.led_by), "summary": self.summary}
        if self.history is not None:
            result["history"] = list(self.history)
        return result


def wait_reason_result(reason: WaitReason) -> dict[str, t.Any]:
    """Return why a claim waits, in the form that modules return."""
    return {"claim": reason.claim, "handover": reason.handover, "waits_for": reason.waits_for,
            "refused": reason.refused, "since": reason.since, "evidence": dict(reason.evidence)}


class Run:
    """A run of a module against one cluster and one fabric."""

    def __init__(self, client: Client, config: EngineConfig, ready_timeout: float) -> None:
        self.client, self.config, self.ready_timeout = client, config, ready_timeout

    @contextmanager
    def _engine(self, *, events: bool) -> Iterator[ControllerManager]:
        check_cluster(self.client, ROLES)
        engine = ControllerManager(self.client, self.config.manager(), self.config, events=events)
        try:
            engine.watch()
            self._wait_ready(engine)
            yield engine
        finally:
            engine.stop()

    def _wait_ready(self, engine: ControllerManager) -> None:
        deadline = time.monotonic() + self.ready_timeout
        while not engine.ready():
            if time.monotonic() > deadline:
                raise NotReady("; ".join(engine.problems()) or "the API server did not answer in time")
            time.sleep(TICK)

    def plan(self) -> Outcome:
        """Return the first actions of ``carry_out``. Raise NotReady and errors of clients."""
        with self._engine(events=False) as engine:
            found = forecast(engine)
            actions = tuple(found.as_dicts())
            waiting = tuple(v for v in explain_forecast(engine, found) if v.waits_for)
            leadership = LeaderElection(self.client, self.config.lease_namespace, sorted(ROLES), threading.Event().set)
            return Outcome(bool(actions), actions, waiting, difference(found), led_by=leadership.look())

    def explain(self, until: Callable[[Sequence[WaitReason]], bool] = lambda reasons: True, timeout: float = 0.0
                ) -> tuple[list[WaitReason], list[str]]:
        """Return why each claim waits, and what could not be read. Raise NotReady and errors of
        clients.

        Explain again until ``until`` returns True, for at most ``timeout`` seconds.
        """
        with self._engine(events=False) as engine:
            deadline = time.monotonic() + timeout
            while not until(found := explain(engine)) and time.monotonic() < deadline:
                time.sleep(LOOK_SECONDS)
            return found, engine.problems()

    def carry_out(self, timeout: float) -> Outcome:
        """Serve all waiting claims. Return the plan of the start together with what was done."""
        stop = threading.Event()
        with self._engine(events=True) as engine:
            leadership = LeaderElection(self.client, self.config.lease_namespace, sorted(ROLES), stop.set)
            engine.fence.require(lambda: leadership.held)
            first = forecast(engine)
            try:
                led_by = leadership.lead_unless_led(stop, timeout)
                if not led_by:
                    engine.work()
                settled = run_until_quiet(engine, timeout, stop, not led_by)
                wait_reasons = tuple(v for v in explain(engine) if v.waits_for)
            finally:
                engine.quiesce()
                engine.flush()
                leadership.leave()
            return Outcome(engine.writer.changes > 0, tuple(first.as_dicts()), wait_reasons, difference(first), settled,
                           tuple(engine.reporter.history), led_by)
