# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a call and a watch event cost this process: `python -m` this file; figures, no verdict.

The server is a process of its own, so that only the client's CPU is counted.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.options import ConnectionOptions
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.tests.integration.kube.api_server import FakeApi, Reply, Stream
from ansible_collections.composable.infra.tests.integration.kube.certificates import (
    Certificates,
    make_certificates,
)

CALLS, EVENTS, WATCHES, ROUNDS = 1000, 1000, 8, 3
POD, ALL = "/api/v1/namespaces/default/pods/worker-0", "/api/v1/pods"


def pod(number: int) -> dict[str, Any]:
    """About as large as a pod of a cluster, its managed fields included (3 kB)."""
    env = [{"name": f"VARIABLE_{n}", "value": "some value of a usual length"} for n in range(10)]
    names = (f"k:{{\"name\":\"VARIABLE_{n}\"}}" for n in range(30))
    fields: dict[str, Any] = {name: {".": {}, "f:name": {}, "f:value": {}} for name in names}
    managed = [{"manager": "kubelet", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}}]
    meta = {"name": f"worker-{number}", "namespace": "default", "uid": f"uid-{number}", "managedFields": managed}
    state = [{"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"} for kind in "abcde"]
    spec = {"containers": [{"name": "c", "image": "registry.test/team/image:1.2.3", "env": env}], "nodeName": "n"}
    meta["resourceVersion"] = str(number + 1)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"conditions": state}}


def compact(value: object) -> bytes:
    """JSON as the API server writes it."""
    return json.dumps(value, separators=(",", ":")).encode()


def serve(pipe: Pipe, certificates: Certificates) -> None:
    """The server's process: answers until it is told to end."""
    api = FakeApi(certificates)
    for method in ("GET", "PATCH"):
        api.on(f"{method} {POD}", Reply(compact(pod(0))))
    events = [compact({"type": "MODIFIED", "object": pod(number)}) + b"\n" for number in range(EVENTS)]
    for _unused in range(WATCHES):
        api.on(f"WATCH {ALL}", Stream().send(*events).end())
    pipe.send(api.url)
    pipe.recv()
    api.stop()


def measure(what: str, count: int, act: Callable[[], object]) -> None:
    """Print the best of some rounds: other programs run on this machine too."""
    best = (float("inf"), 0.0)
    for _unused in range(ROUNDS):
        began, cpu = time.perf_counter(), time.process_time()
        act()
        best = min(best, (time.process_time() - cpu, time.perf_counter() - began))
    print(f"{what:32}{count / best[1]:9.0f}/s {best[0] / count * 1e6:9.0f} us CPU each")


def run(client: Client) -> None:
    """All measurements, one after the other in one thread."""
    body = {"metadata": {"annotations": {"composable.infra/note": "x" * 2000}}}
    client.get(PODS, "worker-0", "default")
    measure("get (3 kB)", CALLS, lambda: [client.get(PODS, "worker-0", "default") for _unused in range(CALLS)])
    measure("merge_patch (2 kB out, 3 kB in)", CALLS,
            lambda: [client.merge_patch(PODS, "worker-0", body, "default") for _unused in range(CALLS)])
    measure("watch event (3 kB)", EVENTS, lambda: sum(1 for _unused in client.watch(PODS, "1")))


def main() -> None:
    """Start the server, measure, stop the server."""
    ours, theirs = multiprocessing.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        certificates = make_certificates(Path(folder))
        process = multiprocessing.Process(target=serve, args=(theirs, certificates))
        process.start()
        try:
            given = ConnectionOptions(host=ours.recv(), ca_file=str(certificates.ca))
            client = Client(Connection.load(given=given, environ={}))
            run(client)
            client.close()
        finally:
            ours.send("end")
            process.join(20)


if __name__ == "__main__":
    main()
