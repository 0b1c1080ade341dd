# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a lab that are killed, frozen and cut off in a run, and that return."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import typing as t
from collections.abc import Callable, Mapping
from pathlib import Path

from ansible_collections.composable.infra.emulator.process import EmulatorError
from ansible_collections.composable.infra.lab.demo.front_doors import Process
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.lab.hardware.agents_options import NAME as AGENTS
from ansible_collections.composable.infra.tests.chaos.models import cdi_manager
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.launch import command

With = Mapping[str, t.Any]
Undo = Callable[[], None]
API_SERVER, ETCD, SCHEDULER = "kube-apiserver", "etcd", "kube-scheduler"
# The faults of the emulator that correspond to the fates of requests in simulated runs.
FAULTS: t.Final[Mapping[str, With]] = {
    cdi_manager.BUSY: {"kind": "status", "status": 409}, cdi_manager.REFUSED: {"kind": "operation_failed"},
    cdi_manager.LOST: {"kind": "lost_request"}, cdi_manager.REPLY_LOST: {"kind": "lost_reply"},
    cdi_manager.LATE: {"kind": "latency", "seconds": 1.0}, cdi_manager.OLD_REPLY: {"kind": "truncated"},
    cdi_manager.HANGS: {"kind": "latency", "seconds": 3.0, "after": True}}


class Parts:
    """Replicas of the controller, the emulator, and the processes of a lab.

    ``name``: prefix of the names of the logs. ``disturbed``: when a leader, the API server or etcd
    last did not work, in epoch seconds.
    """

    def __init__(self, stage: Stage, config: Path, name: str, replicas: int) -> None:
        self.stage, self._config, self._name = stage, config, name
        self._slots = range(replicas)
        self._processes: dict[int, Process] = {}
        self._frozen: set[int] = set()
        self._stopped: set[str] = set()
        self._manager_away = False
        self.disturbed = 0.0
        self.texts: list[str] = []
        self.keep()

    def keep(self) -> None:
        """Start controllers that ended, as the kubelet does."""
        for slot in self._slots:
            process = self._processes.get(slot)
            if process is None or process.process.poll() is not None:
                self.disturbed = time.time()
                if process is not None:
                    self._end(process)
                self._processes[slot] = Process(f"{self._name}-{slot}",
                                                command(self.stage, config=self._config), self.stage)
        if self._frozen or self.api_away:
            self.disturbed = time.time()

    @property
    def api_away(self) -> bool:
        """Return whether the API server cannot answer."""
        return bool(self._stopped & {API_SERVER, ETCD})

    def leader(self) -> Process | None:
        """Return a replica that leads by its own log. A replica that loses the Lease ends."""
        alive = [p for p in self._processes.values() if p.process.poll() is None and p.pid not in self._frozen]
        return next((p for p in reversed(alive) if "leading as" in p.text()), None)

    def kill(self) -> None:
        """Kill the leader with SIGKILL."""
        if leader := self.leader():
            leader.kill()

    def freeze(self) -> Undo:
        """Stop the leader with SIGSTOP. Return a function that continues it."""
        leader = self.leader()
        if leader is None:
            return lambda: None
        os.kill(leader.pid, signal.SIGSTOP)
        self._frozen.add(leader.pid)
        return lambda: self._thaw(leader.pid)

    def _thaw(self, pid: int) -> None:
        if pid in self._frozen:
            self._frozen.discard(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def stop(self, component: str) -> Undo:
        """Kill a process of the control plane with SIGKILL. Return a function that restarts it."""
        if component in self._stopped:
            return lambda: None
        self._stopped.add(component)
        self.stage.lab.processes.stop(component, number=signal.SIGKILL)
        return lambda: self._start(component)

    def _start(self, component: str) -> None:
        if component in self._stopped:
            self._stopped.discard(component)
            self.stage.lab.processes.restart(component)

    def stop_manager(self) -> Undo:
        """Kill the emulator with SIGKILL. Its hardware continues. Return a function that restarts
        it.
        """
        if not self._manager_away:
            self._manager_away = True
            self.stage.emulator.kill()
        return self._start_manager

    def _start_manager(self) -> None:
        if self._manager_away:
            self.stage.emulator.restart()
            self._manager_away = False

    def manager_fails(self, with_: With) -> Undo:
        """Make changes of the fabric fail. Return a function that ends this."""
        rules = [{**FAULTS[with_["fate"]], "purpose": purpose, "probability": with_["part"]}
                 for purpose in ("attach", "detach")]
        self._set_faults(*rules)
        return self._set_faults

    def _set_faults(self, *rules: With) -> None:
        if not self._manager_away:
            with contextlib.suppress(EmulatorError):
                self.stage.emulator.set_faults(*rules)

    def restart_plugin(self, node: int) -> None:
        """Delete the pod of the vendor's plugin."""
        by_hand.restart_plugin(self.stage.lab, self.stage.lab.nodes[node % len(self.stage.lab.nodes)])

    def stop_agents(self) -> Undo:
        """Kill the node agents with SIGKILL. Return a function that restarts them."""
        self.stage.lab.processes.stop(AGENTS, number=signal.SIGKILL)
        return self._start_agents

    def _start_agents(self) -> None:
        if not self.stage.lab.processes.record(AGENTS).alive:
            self.stage.lab.processes.restart(AGENTS)

    def heal(self) -> None:
        """Restart and continue everything. Return when the API server works."""
        for component in sorted(self._stopped, key=(ETCD, API_SERVER, SCHEDULER).index):
            self._start(component)
        self._start_manager()
        self._set_faults()
        self._start_agents()
        for pid in list(self._frozen):
            self._thaw(pid)
        self.stage.lab.processes.wait_until("a ready API server", self.stage.lab.api.ready, 60.0)
        self.keep()

    def close(self) -> None:
        """Stop the controllers."""
        for pid in list(self._frozen):
            self._thaw(pid)
        for process in self._processes.values():
            self._end(process)

    def _end(self, process: Process) -> None:
        process.stop()
        self.texts.append(process.text())
