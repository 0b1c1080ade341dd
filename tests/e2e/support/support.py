# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the end-to-end tests share: waiting for conditions, cleaning a stage, and what the emulator was asked for."""

from __future__ import annotations

import os
import re
import signal
import time
import typing as t
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import Stage, pod_body
from ansible_collections.composable.infra.lab.demo.timeline import ClaimTimes, Timeline
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    PODS,
    SLICES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.planning.pool.plan import least_shown
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import Settings

Json = dict[str, t.Any]
Found = t.TypeVar("Found")
# The scheduler looks every 5 s, and a busy machine makes everything slower: a limit is for hangs, not for speed.
PATIENCE = front_doors.PATIENCE
LOG_END = 6000
LEAST_SHOWN: t.Final = least_shown(Settings(()).max_pool_devices)


def holds_new_pods(stage: Stage) -> bool:
    """Whether a pod that is created now would be held; none is created.

    Also the API server's first pod of the kind: it prepares a policy when it is first used, which takes 50 ms for one
    pod, and ten times that for eight at once.
    """
    return pods.held(stage.client.create(PODS, pod_body("never", None), dry_run=True))


def wait_for(what: str, check: Callable[[], Found], seconds: float = PATIENCE) -> Found:
    """What ``check`` returns as soon as that is true."""
    began = time.monotonic()
    while not (found := check()):
        waited = time.monotonic() - began
        assert waited < seconds, f"not within {seconds:g} s: {what}"
        # A check costs several requests. Who waits for the scheduler's next cycle need not ask twenty times a second.
        time.sleep(min(0.25, 0.05 + waited / 20))
    return found


def told(read: Callable[[], str]) -> str:
    """What it reads, or why it cannot: a failure is told even when the API server or a log is away."""
    try:
        return read()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@dataclass
class Opened:
    """Processes that tests started: stopped at the end, and their logs are shown when a test fails."""

    processes: list[front_doors.Process] = field(default_factory=list)

    def add(self, process: front_doors.Process) -> front_doors.Process:
        """Watch over a process; once is enough."""
        if process not in self.processes:
            self.processes.append(process)
        return process

    def stop(self, process: front_doors.Process) -> int:
        """Stop one; its exit status."""
        self.processes.remove(process)
        return process.stop()

    def stop_all(self, but: Iterable[front_doors.Process] = ()) -> None:
        """Stop all but some."""
        kept = list(but)
        for process in [p for p in self.processes if p not in kept]:
            self.stop(process)

    def stop_those_of(self, stage: Stage) -> None:
        """Stop what still runs on a stage: its folder, with their logs, goes with it."""
        for process in [p for p in self.processes if p.log_path.is_relative_to(stage.folder)]:
            self.stop(process)

    def logs(self) -> Iterable[tuple[str, str]]:
        """(name, end of the log, or why it cannot be read) of each."""
        return [(p.name, told(p.text)[-LOG_END:]) for p in self.processes]


OPENED = Opened()


def asked(process: front_doors.Process, path: str) -> tuple[int, str]:
    """Status and text of what a process answers where its log says that it listens."""
    address = re.search(r"listening on (\S+)", process.text())
    assert address, f"{process.name} does not listen"
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"{address[1]}{path}", timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def is_ready(process: front_doors.Process) -> bool:
    """Whether a process says so; a controller has seen the fabric then."""
    return asked(process, "/readyz")[0] == 200


def counted(controller: front_doors.Process, name: str) -> float:
    """A counter of the controller (its name without ``composable_``), over all its labels."""
    status, text = asked(controller, "/metrics")
    assert status == 200, text
    return sum(float(v) for v in re.findall(rf"^composable_{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE))


def delete_all(stage: Stage, namespace: str = "default") -> None:
    """Delete all pods and claims of a namespace and wait until they are gone."""
    for kind in (PODS, CLAIMS):
        for item in stage.client.list(kind, namespace=namespace).items:
            try:
                stage.client.delete(kind, item["metadata"]["name"], namespace=namespace)
            except NotFound:
                continue
    for kind in (PODS, CLAIMS):
        wait_for(f"no {kind.plural} are left", partial(_none, stage, kind, namespace))


def _none(stage: Stage, kind: ApiResource, namespace: str) -> bool:
    return not stage.client.list(kind, namespace=namespace).items


def returned(stage: Stage) -> bool:
    """Whether the manager has every device, none is on its way to a node, and nothing asks for one."""
    return (set(states(stage)) == {"free"} and not stage.client.list(COMPOSABLE_RESOURCES).items
            and not any(sizes(stage).values()))


def all_free(stage: Stage) -> bool:
    """Whether every device has returned, and the published pools show it.

    A pod that finds too few in the pool waits, and may take a device that is attached for another. A large pool shows
    only some of its devices.
    """
    shown, devices = sum(pools(stage).values()), len(states(stage))
    return returned(stage) and min(devices, LEAST_SHOWN) <= shown <= devices


def at_rest(stage: Stage) -> bool:
    """Whether no device is on its way in or out."""
    states = {d["state"] for d in stage.emulator.state()["devices"]}
    return states <= {"free", "attached"}


def sizes(stage: Stage) -> dict[tuple[str, str], int]:
    """Wanted sizes by (node, model)."""
    found = {}
    for item in stage.client.list(COMPOSABILITY_REQUESTS).items:
        spec = item["spec"]["resource"]
        found[spec["target_node"], spec["model"]] = int(spec["size"])
    return found


def pools(stage: Stage) -> dict[str, int]:
    """Devices that each published pool shows."""
    found: dict[str, int] = {}
    for item in stage.client.list(SLICES).items:
        if not item["spec"].get("nodeName"):
            name = item["spec"]["pool"]["name"]
            found[name] = found.get(name, 0) + len(item["spec"].get("devices") or [])
    return found


def mark(stage: Stage) -> int:
    """Number of the emulator's last request: what follows has a greater one."""
    return max((e["n"] for e in stage.emulator.log()), default=0)


def changes_asked(stage: Stage, since: int, *methods: str) -> list[Json]:
    """The emulator's log of requests that change the fabric, after a mark."""
    return [e for e in stage.emulator.log(since) if e["method"] in (methods or ("PATCH", "DELETE"))]


def states(stage: Stage) -> list[str]:
    """States of all devices, as the emulator has them, in the order of the alphabet."""
    return sorted(d["state"] for d in stage.emulator.state()["devices"])


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """A process that does nothing for a while and knows nothing of it."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def lose_api_server_during_an_attach(stage: Stage) -> None:
    """Take it away once an attach is under way, and bring it back when a device is attached."""
    wait_for("an attach is under way", lambda: "attaching" in states(stage))
    stage.lab.stop_component("kube-apiserver")
    wait_for("the device is attached meanwhile", lambda: "attached" in states(stage))
    stage.lab.start_component("kube-apiserver")


def attached(stage: Stage) -> dict[str, Json]:
    """Attached devices by serial number, as the emulator has them."""
    return {d["serial"]: d for d in stage.emulator.state()["devices"] if d["state"] == "attached"}


def assert_served(stage: Stage, times: Iterable[ClaimTimes], since: int, devices: dict[str, tuple[str, int]]) -> None:
    """Each pod runs on the node that its devices were attached for, and nothing else was asked of the manager.

    ``devices`` is (model, count) by claim.
    """
    found = {it.name: it for it in times if it.name in devices}
    assert found.keys() == devices.keys()
    on = attached(stage)
    for name, (model, count) in devices.items():
        it = found[name]
        assert it.node == it.first_node, f"{name} was served on {it.first_node} and ended on {it.node}"
        assert [(on[s]["model"], on[s]["machine"]) for s in it.devices] == [(model, machine_uuid(it.node))] * count
    serials = [s for it in found.values() for s in it.devices]
    assert len(serials) == len(set(serials)), "a device was given to two claims"
    asked = changes_asked(stage, since)
    assert [(e["method"], e["status"]) for e in asked] == [("PATCH", 200)] * len(serials)
    assert {e["device"] for e in asked} == {on[s]["uid"] for s in serials}


def allocated(timeline: Timeline, *names: str) -> bool:
    """Whether the scheduler has given each claim devices of a pool."""
    return all(name in timeline.claims and timeline.claims[name].allocated for name in names)


def run_with_devices(timeline: Timeline, *names: str) -> bool:
    """Whether the pods run and the watch has seen which devices they got."""
    return timeline.running(*names) and all(timeline.claims[n].devices and timeline.claims[n].node for n in names)


def run_pods(stage: Stage, timeline: Timeline, serve: Callable[[], object],
             devices: dict[str, tuple[str, int]], nodes: dict[str, str] | None = None) -> int:
    """Create pods, have them served, wait until they run; the emulator's mark from before."""
    since = mark(stage)
    for name, (model, count) in devices.items():
        stage.pod(name, model, count, (nodes or {}).get(name))
    serve()
    await_served(stage, timeline, *devices)
    return since


def await_served(stage: Stage, timeline: Timeline, *names: str, deployed: front_doors.Process | None = None) -> None:
    """Wait until the pods run; says whom nobody serves when they do not.

    ``deployed``: a controller that may end, since an API server that is away for 12 s costs it its Lease. It is started
    again then, as its Deployment does.
    """
    def served() -> bool:
        if deployed is not None:
            deployed.start_again_if_ended()
        return run_with_devices(timeline, *names)

    assert timeline.wait(served, PATIENCE), unserved(stage, timeline, names)


def unserved(stage: Stage, timeline: Timeline, names: Iterable[str]) -> str:
    """Which pods do not run, and what the API server says about their claims."""
    lines = ["not all pods run:"]
    for name in names:
        try:
            claim = stage.client.get(CLAIMS, name, namespace="default")
            lines.append(f"{name}: running={timeline.running(name)} status={claim.get('status')}")
        except ApiError as error:
            lines.append(f"{name}: {error}")
    return "\n".join(lines)
