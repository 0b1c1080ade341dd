# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 in tests: of which part, in which moment, and how that part comes back."""

from __future__ import annotations

import os
import signal
import threading
import types
import typing as t
from collections.abc import Callable
from functools import partial

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.lab.hardware.agents_options import NAME as AGENTS
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import NODE, annotation
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.reflector import Reflector
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    PREPARING,
    READY,
    RELEASING,
    REMOVED,
    Evidence,
)
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.support import PATIENCE, wait_for

Json = dict[str, t.Any]
OpenProcess = t.Callable[..., front_doors.Process]
UP, DOWN = (PREPARING, READY), (RELEASING, REMOVED)


class StepTrap:
    """A context manager. ``spring()`` is called once, by a thread, when a device of the stage has the step.

    Evidence of several steps may be written at once; then it is called at the last of them. A device whose
    ComposableResource is gone has done all steps.
    """

    def __init__(self, stage: Stage, step: str, *, going_up: bool, spring: Callable[[], None]) -> None:
        self._step, self._phases, self._spring = step, UP if going_up else DOWN, spring
        self._sprung = threading.Event()
        self._watch = Reflector(stage.client, COMPOSABLE_RESOURCES, Store({}), self._changed)

    def __enter__(self) -> StepTrap:
        self._watch.start()
        assert self._watch.synced.wait(PATIENCE)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 where: types.TracebackType | None) -> None:
        self._watch.stop()

    def wait(self) -> None:
        """Return when the trap was sprung."""
        assert self._sprung.wait(PATIENCE), f"no device has the step {self._step}"

    def _changed(self, kind: str, obj: Json, _old: Json | None) -> None:
        found = Evidence.parse(annotation(obj, NODE))
        there = found is not None and found.phase in self._phases and found.has(self._step)
        over = kind == "DELETED" and self._phases == DOWN
        if (there or over) and not self._sprung.is_set():
            self._spring()
            self._sprung.set()


class Victim:
    """A part of a stage with a controller; ``node`` is the node whose part it is."""

    def __init__(self, stage: Stage, node: str, open_process: OpenProcess) -> None:
        self.stage, self.node, self.open_process = stage, node, open_process
        self.controller = open_process(front_doors.controller, stage)

    def kill(self) -> None:
        """End it at once; nothing of it gets a chance to clean up."""
        raise NotImplementedError

    def bring_back(self) -> None:
        """Start it again, as a Deployment or DaemonSet would."""
        raise NotImplementedError


class AgentVictim(Victim):
    """The process of the node's agent."""

    def kill(self) -> None:
        os.kill(self.stage.lab.processes.record(AGENTS).pid, signal.SIGKILL)

    def bring_back(self) -> None:
        self.stage.lab.processes.stop(AGENTS)
        self.stage.lab.processes.restart(AGENTS)


class PluginVictim(Victim):
    """The pod of the vendor's DRA plugin; its DaemonSet makes another."""

    def kill(self) -> None:
        for pod in by_hand.plugin_pods(self.stage.lab, self.node):
            self.stage.lab.api.request("DELETE", f"{by_hand.PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")

    def bring_back(self) -> None:
        wait_for("another plugin", partial(by_hand.plugin_pods, self.stage.lab, self.node))


class ControllerVictim(Victim):
    """The controller, which leads."""

    def kill(self) -> None:
        self.controller.kill()

    def bring_back(self) -> None:
        self.controller = self.open_process(front_doors.controller, self.stage)
