# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real nodes with controllers and agents in pods: what was seen of each device there, and who is killed."""

from __future__ import annotations

import os
import signal
import threading
import typing as t
from collections.abc import Collection
from pathlib import Path

from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.lab.real_nodes import cgroups
from ansible_collections.composable.infra.lab.real_nodes.node import RealNode
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.reflector import Reflector
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import REMOVED_FROM_BUS, Evidence
from ansible_collections.composable.infra.tests.e2e.support import real_hardware
from ansible_collections.composable.infra.tests.e2e.support.support import wait_for

Json = dict[str, t.Any]
PODS = "/api/v1/namespaces/composable-infra/pods"
# Without the gate reaper, which nobody kills here.
OURS = f"{PODS}?labelSelector=app.kubernetes.io/component%20in%20(controllers,node-agent)"
PACKAGE = "ansible_collections.composable.infra"
# The modules that the pods run, and programs of the node.
AGENT, PLUGIN, CONTROLLER = f"{PACKAGE}.controller.agent", f"{PACKAGE}.lab.real_nodes.plugin", f"{PACKAGE}.controller"
KUBELET, CONTAINERD = "kubelet", "containerd"


class EvidenceLog:
    """Everything that the agents wrote, by the device's uid at the CDI Manager, until ``stop``."""

    def __init__(self, stage: Stage) -> None:
        self.seen: dict[str, list[Evidence]] = {}
        self.changed = threading.Condition()
        self._reflector = Reflector(stage.client, COMPOSABLE_RESOURCES, Store({}), self._note)
        self._reflector.start()
        self._reflector.synced.wait(10)

    def stop(self) -> None:
        """End the watch."""
        self._reflector.stop()

    def _note(self, _kind: str, raw: Json, _old: Json | None) -> None:
        found = Evidence.parse(cohdi.annotation(raw, cohdi.NODE))
        with self.changed:
            if found is not None:
                self.seen.setdefault(found.device, []).append(found)
            self.changed.notify_all()

    def steps(self, device: str, step: str) -> list[float]:
        """When the device took this step; seconds since the epoch."""
        found = (each for evidence in self.seen.get(device, ()) for each in evidence.steps if each.step == step)
        return sorted({parse_time(each.at) for each in found})

    def has(self, step: str) -> bool:
        """Whether any device has taken this step."""
        return any(self.steps(device, step) for device in list(self.seen))

    def troubles(self, device: str) -> set[str]:
        """Reasons of the troubles that were told of a device."""
        return {evidence.trouble.reason for evidence in self.seen.get(device, ()) if evidence.trouble}


def pulled_first(stage: Stage, log: EvidenceLog, since: int) -> list[str]:
    """Devices that the emulator was asked to detach, by its own log, before their node had removed them."""
    asked = [e for e in stage.emulator.log(since) if e["method"] == "DELETE" and e["device"]]
    assert asked, "no detach was asked for"
    return [e["device"] for e in asked
            if not any(moment < e["time_received"] for moment in log.steps(e["device"], REMOVED_FROM_BUS))]


def start_afresh(stage: Stage, victim: str) -> None:
    """Replace pods whose containers were killed before: a kubelet starts those again only after a while."""
    if victim not in (AGENT, CONTROLLER):
        return
    old = {pod["metadata"]["name"] for pod in stage.lab.api.get(OURS)["items"] if _restarts(pod)}
    for name in old:
        stage.lab.api.request("DELETE", f"{PODS}/{name}")
    wait_for("other pods in their place", lambda: _all_ready(stage, old))


def _all_ready(stage: Stage, gone: Collection[str]) -> bool:
    """Whether there are an agent for each node and two controllers, all ready, and none of ``gone``."""
    found = stage.lab.api.get(OURS)["items"]
    names = {pod["metadata"]["name"] for pod in found}
    ready = [pod for pod in found if [c["ready"] for c in pod["status"].get("containerStatuses") or []] == [True]]
    return not names & set(gone) and len(ready) == len(found) == len(stage.lab.real_nodes) + 2


def _restarts(pod: Json) -> int:
    return sum(int(c["restartCount"]) for c in pod["status"].get("containerStatuses") or [])


def kill(stage: Stage, victim: str) -> None:
    """``kill -9`` the victim on every real node; a node's program is started again when this returns."""
    for node in stage.lab.real_nodes:
        if victim in (KUBELET, CONTAINERD):
            real_hardware.kill(node, victim)
        else:
            kill_in_pods(node, victim)


def kill_in_pods(node: RealNode, module: str) -> None:
    """``kill -9`` the processes of a node's pods that run this Python module; their kubelet starts them again."""
    for pid in processes(node, module):
        os.kill(pid, signal.SIGKILL)


def processes(node: RealNode, module: str) -> list[int]:
    """Those of a node's pods that run this Python module."""
    groups = [hierarchy / node.cgroup for hierarchy in cgroups.hierarchies()]
    return sorted(pid for pid in cgroups.members(groups) if _module(pid) == module)


def _module(pid: int) -> str:
    """The module that a Python process runs; "" for others."""
    try:
        words = [os.fsdecode(word) for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    except OSError:
        return ""
    return words[2] if words[1:2] == ["-m"] else ""
