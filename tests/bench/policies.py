# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of the collection's admission policies for other writes to an API server: heartbeats and
a pod's status.

Two control planes side by side, one with the policies and one without, get the same requests in
turn.
"""

from __future__ import annotations

import statistics
import time
import typing as t
from collections.abc import Callable
from contextlib import ExitStack

from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, StageOptions
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import LEASES, NODES, PODS, Object
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.tests.bench.process import cpu

WRITES, ROUNDS = 1000, 5
# Seconds in which an idle API server is measured. Its processor time then is not for the writes.
IDLE = 5.0
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
OPTIONS: t.Final = StageOptions(nodes=1, devices={A100: 1}, hands="none")
AT = "2026-01-02T03:04:05Z"
Write = Callable[[Client, int], object]


def lease(client: Client, number: int) -> object:
    """Write as each kubelet every 10 s."""
    body = {"spec": {"renewTime": f"2026-01-02T03:04:05.{number:06d}Z"}}
    return client.merge_patch(LEASES, "probe", body, "kube-node-lease")


def node_status(client: Client, number: int) -> object:
    """Write as each kubelet every 5 minutes, and on a change of its node."""
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": f"beat {number}",
                 "lastHeartbeatTime": AT, "lastTransitionTime": AT}
    return client.merge_patch(NODES, "probe", {"status": {"conditions": [condition]}}, subresource="status")


def pod_status(client: Client, number: int) -> object:
    """Write as a kubelet several times for each pod."""
    return client.merge_patch(PODS, "probe", {"status": {"message": f"beat {number}"}}, "kube-system",
                              subresource="status")


KINDS: t.Final[dict[str, Write]] = {"Lease in kube-node-lease": lease, "status of a Node": node_status,
                                    "status of a Pod": pod_status}


def run() -> list[dict[str, t.Any]]:
    """Return a row for each kind of write. The first round of each does not count."""
    with ExitStack() as stages:
        servers = {name: _Server(stages.enter_context(Stage(OPTIONS))) for name in ("with", "without")}
        servers["without"].remove_policies()
        found: dict[tuple[str, str], list[float]] = {}
        for _round in range(1 + ROUNDS):
            for kind, write in KINDS.items():
                for name, server in servers.items():
                    found.setdefault((kind, name), []).append(server.cost(write))
    return [{"write": kind, "writes": WRITES * ROUNDS,
             **{f"{name}_us": round(statistics.median(found[kind, name][1:])) for name in servers}} for kind in KINDS]


class _Server:
    """The API server of a stage."""

    def __init__(self, stage: Stage) -> None:
        self.client = stage.client
        self._pid = next(each.pid for each in stage.lab.processes.records() if each.name == "kube-apiserver")
        for kind, body in _objects(stage.lab.nodes[0]):
            self.client.create(kind, {"apiVersion": kind.group_version, "kind": kind.kind, **body})
        began = cpu(self._pid)
        time.sleep(IDLE)
        self._idle = (cpu(self._pid) - began) / IDLE

    def remove_policies(self) -> None:
        """Remove the bindings of all policies."""
        for binding in self.client.raw("GET", BINDINGS)["items"]:
            self.client.raw("DELETE", f"{BINDINGS}/{binding['metadata']['name']}")

    def cost(self, write: Write) -> float:
        """Return the microseconds of processor time of a write."""
        began, used = time.monotonic(), cpu(self._pid)
        for number in range(WRITES):
            write(self.client, number)
        return 1e6 * (cpu(self._pid) - used - self._idle * (time.monotonic() - began)) / WRITES


def _objects(node: str) -> list[tuple[t.Any, Object]]:
    pod = {"nodeName": node, "automountServiceAccountToken": False, "tolerations": [{"operator": "Exists"}],
           "containers": [{"name": "c", "image": "example.com/image:1"}]}
    return [(LEASES, {"metadata": {"name": "probe", "namespace": "kube-node-lease"},
                      "spec": {"holderIdentity": "probe", "leaseDurationSeconds": 40}}),
            (NODES, {"metadata": {"name": "probe"}}),
            (PODS, {"metadata": {"name": "probe", "namespace": "kube-system"}, "spec": pod})]
