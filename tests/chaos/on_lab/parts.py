# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a lab that are killed, frozen and cut off in a run, and that come back."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import typing as t
from collections.abc import Callable, Mapping

from ansible_collections.composable.infra.emulator.process import EmulatorError
from ansible_collections.composable.infra.lab.demo.front_doors import PACKAGE, Process
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.lab.hardware.agents_options import NAME as AGENTS
from ansible_collections.composable.infra.tests.chaos.models import cdi_manager
from ansible_collections.composable.infra.tests.e2e.support import by_hand

With = Mapping[str, t.Any]
# What of the emulator's faults stands for what happens to a request in the simulated runs.
FAULTS: t.Final[Mapping[str, With]] = {
    cdi_manager.BUSY: {"kind": "status", "status": 409}, cdi_manager.REFUSED: {"kind": "operation_failed"},
    cdi_manager.LOST: {"kind": "lost_request"}, cdi_manager.REPLY_LOST: {"kind": "lost_reply"},
    cdi_manager.LATE: {"kind": "latency", "seconds": 1.0}, cdi_manager.OLD_REPLY: {"kind": "truncated"},
    cdi_manager.HANGS: {"kind": "latency", "seconds": 3.0, "after": True}}


class Parts:
    """Replicas of the controller, the emulator, and the processes of a lab. ``log``: what was done to them."""

    def __init__(self, stage: Stage, replicas: int) -> None:
        self.stage, self._replicas = stage, replicas
        self._processes: dict[int, Process] = {}
        self._stopped: set[str] = set()
        self._emulator_away = False
        self.texts: list[str] = []
        self.keep()

    def keep(self) -> None:
        """Start what ended, as the kubelet does."""
        for slot in range(self._replicas):
            process = self._processes.get(slot)
            if process is None or process.process.poll() is not None:
                if process is not None:
                    self._end(process)
                self._processes[slot] = Process(f"controller-{slot}", [
                    sys.executable, "-m", f"{PACKAGE}.controller", "--config", str(self.stage.config_path),
                    "--kubeconfig", str(self.stage.kubeconfig), "--listen", "127.0.0.1:0"], self.stage)

    def leader(self) -> Process | None:
        """The replica that said last that it leads."""
        found = [p for p in self._processes.values() if p.process.poll() is None and "leading as" in p.text()]
        return found[-1] if found else None

    def kill(self) -> None:
        """kill -9 of the leader."""
        if leader := self.leader():
            leader.kill()

    def freeze(self) -> Callable[[], None]:
        """The leader stands still until what is returned is called."""
        leader = self.leader()
        if leader is None:
            return lambda: None
        os.kill(leader.pid, signal.SIGSTOP)

        def thaw() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(leader.pid, signal.SIGCONT)

        return thaw

    def stop(self, component: str) -> Callable[[], None]:
        """A process of the control plane is away until what is returned is called."""
        if component in self._stopped:
            return lambda: None
        self._stopped.add(component)
        self.stage.lab.stop_component(component)
        return lambda: self._start(component)

    def _start(self, component: str) -> None:
        if component in self._stopped:
            self._stopped.discard(component)
            self.stage.lab.start_component(component)

    def stop_manager(self) -> Callable[[], None]:
        """kill -9 of the emulator; its hardware goes on."""
        if not self._emulator_away:
            self._emulator_away = True
            self.stage.emulator.kill()
        return self._start_manager

    def _start_manager(self) -> None:
        if self._emulator_away:
            self.stage.emulator.restart()
            self._emulator_away = False

    def manager_fails(self, with_: With) -> Callable[[], None]:
        """Changes of the fabric go wrong until what is returned is called."""
        rules = [{**FAULTS[with_["fate"]], "purpose": purpose, "probability": with_["part"]}
                 for purpose in ("attach", "detach")]
        with contextlib.suppress(EmulatorError):
            self.stage.emulator.set_faults(*rules)
        return self._manager_works

    def _manager_works(self) -> None:
        with contextlib.suppress(EmulatorError):
            self.stage.emulator.set_faults()

    def restart_plugin(self, node: int) -> None:
        """The pod of the vendor's plugin is deleted."""
        by_hand.restart_plugin(self.stage.lab, self.stage.lab.nodes[node % len(self.stage.lab.nodes)])

    def restart_agents(self) -> None:
        """kill -9 of the node agents, which come back."""
        os.kill(self.stage.lab.processes.record(AGENTS).pid, signal.SIGKILL)
        self.stage.lab.processes.stop(AGENTS)
        self.stage.lab.processes.restart(AGENTS)

    def heal(self) -> None:
        """Everything is there, and works."""
        for component in sorted(self._stopped, key=lambda name: name != "etcd"):
            self._start(component)
        self._start_manager()
        self.stage.emulator.set_faults()
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
        self.keep()

    def close(self) -> None:
        """End the controllers."""
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
            self._end(process)

    def _end(self, process: Process) -> None:
        process.stop()
        self.texts.append(process.text())
