# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make demo MODE=autoscale``: Cluster Autoscaler requests a node, gets devices, and returns
unused ones.

The real program runs if ``CLUSTER_AUTOSCALER`` names it, otherwise a stand-in
(``lab/autoscaling``).
"""

from __future__ import annotations

import re
import threading
import typing as t
from collections.abc import Callable, Iterator

from ansible_collections.composable.infra.controller.autoscaler.requests import SCALE_DOWN_DISABLED
from ansible_collections.composable.infra.lab.autoscaling import processes
from ansible_collections.composable.infra.lab.autoscaling.asking import Asking
from ansible_collections.composable.infra.lab.autoscaling.stand_in import Times
from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.front_doors import Process
from ansible_collections.composable.infra.lab.demo.stage import A100, WORK, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import DEVICE_CLASSES, NODES, PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time

Json = dict[str, t.Any]
MODE = "autoscale"
DEVICES = {A100: 3}
# Hold time of idle devices. They are returned earlier because Cluster Autoscaler does not need the
# node.
HOLD = 600.0
ASKED = {"train": 1, "big": 2}
UNNEEDED = 5.0
# Limits for hangs. The real program waits before it removes a node, the stand-in does not.
RUN_SECONDS, SCALE_DOWN_SECONDS, REAL_SCALE_DOWN_SECONDS = 90.0, 90.0, 240.0
_LINE = re.compile(r"^(\S+) (?:INFO|WARNING) +((?:AttachDecided|NodesOrdered|NodesNotOrdered|ScaleUp\w+|"
                   r"ScaleDownDecided|IdleDevicesReturn|NodeRemoved|NodeNotRemoved|NodeGroup\w+ refused).*)$")
_DECIDED = re.compile(r"AttachDecided pod default/([^:]+):")


def body(name: str, count: int) -> Json:
    """Return a pod that requests the extended resource, because Cluster Autoscaler sees no devices
    in templates."""
    container = {"name": WORK, "image": "example.invalid/work:1",
                 "resources": {"limits": {processes.RESOURCE: str(count)}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}


def told(text: str) -> Iterator[tuple[str, str]]:
    """Yield (time, text) of each line of the provider's log with a decision or an action."""
    return ((found[1], found[2]) for line in text.splitlines() if (found := _LINE.match(line)))


class Autoscaled:
    """Scaler and operator without a publisher, the provider, and its caller. There are no pools.

    ``say(who, what)`` receives the decisions of the provider, and ``timeline`` their times for each
    pod. ``page`` is the address of the controller's page.
    """

    name = "provider"

    def __init__(self, stage: Stage, timeline: Timeline, say: Callable[[str, str], None]) -> None:
        self._stage, self._timeline, self._say = stage, timeline, say
        self._parts: list[Process | Asking] = []
        self._stopped, self._said, self._patience = threading.Event(), 0, SCALE_DOWN_SECONDS
        self._following = threading.Thread(target=self._follow, name="provider's log", daemon=True)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        stage = self._stage
        stage.client.merge_patch(DEVICE_CLASSES, stage.driver, {"spec": {"extendedResourceName": processes.RESOURCE}})
        controller = front_doors.controller(stage, "--only", "scaler", "--only", "operator", "--ui", "read-only")
        self._parts.append(controller)
        self.page = front_doors.page_address(controller)
        certificates = processes.Certificates(stage.folder / "autoscaler-pki")
        self._provider, port = processes.provider(stage, processes.groups(), certificates)
        self._parts.append(self._provider)
        binary = processes.find_cluster_autoscaler()
        if binary is None:
            self._parts.append(Asking(stage.client, port, certificates, Times(scale_down_unneeded_time=UNNEEDED)))
            self._say("autoscaler", "a stand-in for Cluster Autoscaler asks the provider "
                                    f"({processes.VARIABLE}=<path> runs the program itself)")
        else:
            real = processes.cluster_autoscaler(stage, binary, port, certificates)
            self._parts.append(real)
            real.wait_for("Starting main loop")
            self._patience = REAL_SCALE_DOWN_SECONDS
            self._say("autoscaler", f"{binary} asks the provider")
        self._following.start()

    def _follow(self) -> None:
        while not self._stopped.wait(0.05):
            self._tell()

    def _tell(self) -> None:
        lines = list(told(self._provider.text()))
        for stamp, line in lines[self._said:]:
            self._say("provider", line)
            if found := _DECIDED.match(line):
                self._timeline.note_called(found[1], parse_time(stamp))
        self._said = len(lines)

    def flow(self, expect: Callable[[str, Callable[[], bool], float], None], free: Callable[[], int]) -> None:
        """Run cases 1 and 3 of docs/autoscaling.md. ``free()`` returns the free devices of the
        fabric."""
        for name, count in ASKED.items():
            self._say("user", f"creates pod {name}, which asks for {count} x {processes.RESOURCE}")
            self._stage.client.create(PODS, body(name, count))
        expect("all pods run", lambda: self._timeline.running(*ASKED), RUN_SECONDS)
        used = {self._timeline.claims[name].node for name in ASKED}
        self._say("user", f"deletes pods {' and '.join(ASKED)}. An idle device would stay for {HOLD:g} s")
        for name in ASKED:
            self._stage.client.delete(PODS, name, namespace="default")
        expect("the devices are back in the fabric", lambda: free() == sum(DEVICES.values()), self._patience)
        expect("the nodes stay, and are excluded from Cluster Autoscaler's scale-down",
               lambda: all(self._kept(node) for node in used), self._patience)

    def _kept(self, name: str) -> bool:
        node = self._stage.client.get(NODES, name)
        notes = node["metadata"].get("annotations") or {}
        return notes.get(SCALE_DOWN_DISABLED) == "true" and not node["spec"].get("unschedulable")

    def text(self) -> str:
        """Return the logs of all parts."""
        return "\n".join(f"{part.name}:\n{part.text()[-3000:]}" for part in self._parts)

    def stop(self) -> None:
        """Stop all parts, the caller of the provider first."""
        self._stopped.set()
        if self._following.is_alive():
            self._following.join(10)
        while self._parts:
            self._parts.pop().stop()
