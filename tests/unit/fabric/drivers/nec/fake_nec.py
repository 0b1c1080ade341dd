# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A CDIM in memory: two machines behind adapters or CPUs, and applies that end as a test says."""

from __future__ import annotations

import threading
import typing as t
from dataclasses import dataclass, field

from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.nec import driver
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Busy, FabricError, Missing, Refused
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import JsonResponse, Request
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations import polling
from ansible_collections.composable.infra.plugins.module_utils.net.backoff import Backoff

MODEL = "A100"
ADAPTERS, CPUS = ("sourceDeviceID", "destinationDeviceID"), ("targetCPUID", "targetDeviceID")


def part(uid: str, kind: str, *links: tuple[str, str], role: str = "", **more: t.Any) -> dict[str, t.Any]:
    """One resource."""
    device = {
        "deviceID": uid, "type": kind, "model": MODEL, "status": {"state": "Enabled", "health": "OK"},
        "attribute": {"deviceSpecificInformation": {"status": role}} if role else {},
        "links": [{"type": t_, "deviceID": d} for t_, d in links], **more,
    }
    return {"device": device, "detected": True, "nodeIDs": []}


@dataclass
class Run:
    """An apply; ``looks`` until it ends as ``status``."""

    procedures: list[dict[str, t.Any]]
    looks: int
    status: str = "COMPLETED"
    rollback: str = ""
    results: dict[int, str] = field(default_factory=dict)
    done: bool = False


@dataclass
class FakeNec:
    """``on``: machine by device. ``bad``: devices that cannot be connected. ``runs``: applies by id.

    ``page``: applies of one page of their list, of which CDIM gives 20 unless asked for more. ``lists``: it has a list.
    """

    keys: tuple[str, str] = ADAPTERS
    devices: list[str] = field(default_factory=lambda: ["d1", "d2", "d3", "d4"])
    on: dict[str, str] = field(default_factory=dict)
    bad: set[str] = field(default_factory=set)
    looks: int = 2
    tells_results: bool = True
    sequential: bool = False
    end: str = "FAILED"
    rollback: str = ""
    lists: bool = True
    page: int = 20
    runs: dict[str, Run] = field(default_factory=dict)
    posts: list[Request] = field(default_factory=list)
    health: dict[str, tuple[str, str]] = field(default_factory=dict)
    before_post: t.Callable[[Request], None] = lambda call: None
    after_post: t.Callable[[Request], None] = lambda call: None
    failing: list[FabricError] = field(default_factory=list)
    links: tuple[str, ...] = ("eeio", "destinationFabricAdapter")

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def call(self, call: Request) -> JsonResponse:
        with self._lock:
            return JsonResponse(200, {}, self._post(call) if call.method == "POST" else self._get(call))

    def close(self) -> None:
        """Nothing is kept."""

    def redact(self, text: str) -> str:
        return text

    def source(self, machine: str) -> str:
        return f"{machine}-eeio" if self.keys == ADAPTERS else f"{machine}-cpu"

    def _get(self, call: Request) -> t.Any:
        if self.failing:
            raise self.failing.pop(0)
        end = call.path.removeprefix("/cdim/api/v1")
        if end == "/resources?detail=true":
            return {"count": len(self.resources()), "resources": self.resources()}
        if end == "/nodes?detail=true":
            return {"count": 2, "nodes": [self.node("m1"), self.node("m2")]}
        if end.startswith("/layout-apply?"):
            return self._listed(int(end.partition("&offset=")[2] or 0))
        return self._progress(end.removeprefix("/layout-apply/"))

    def _listed(self, offset: int) -> t.Any:
        if not self.lists:
            raise Missing("no such path")
        found = [
            {"applyID": uid, "status": run.status if run.done else "IN_PROGRESS", "procedures": run.procedures}
            for uid, run in self.runs.items()
        ]
        page = found[offset:offset + self.page]
        return {"totalCount": len(found), "count": len(page), "applyResults": page}

    def node(self, machine: str) -> dict[str, t.Any]:
        own = [part(f"{machine}-cpu", "CPU")]
        if self.keys == ADAPTERS:
            link = ("destinationFabricAdapter", f"{machine}-eeio")
            own.append(part(f"{machine}-eesv", "sourceFabricAdapter", link, role="eesv"))
        return {"id": machine.upper(), "name": machine, "resources": own}

    def resources(self) -> list[dict[str, t.Any]]:
        made = [entry for m in ("m1", "m2") for entry in self.node(m)["resources"]]
        made += [part(f"{m}-eeio", "destinationFabricAdapter", role="eeio") for m in ("m1", "m2")]
        for uid in self.devices:
            there = self.on.get(uid)
            kinds = self.links if self.keys == ADAPTERS else ("CPU",)
            entry = part(uid, "GPU", *((kind, self.source(there)) for kind in kinds if there))
            state, health = self.health.get(uid, ("Enabled", "OK"))
            entry["device"]["status"] = {"state": state, "health": health}
            made.append(entry)
        return made

    def _progress(self, uid: str) -> t.Any:
        run = self.runs.get(uid)
        if run is None:
            raise Missing("Specified ID is not found in layoutapply.")
        run.looks -= 1
        if run.looks > 0:
            return {"applyID": uid, "status": "IN_PROGRESS"}
        if not run.done:
            self._carry_out(run)
        told: dict[str, t.Any] = {"applyID": uid, "status": run.status, "rollbackStatus": run.rollback}
        if self.tells_results:
            told["applyResult"] = [{"operationID": n, "status": s} for n, s in run.results.items()]
        return told

    def _carry_out(self, run: Run) -> None:
        failed = False
        for p in run.procedures:
            device = p[self.keys[1]]
            if failed and self.sequential:
                run.results[p["operationID"]] = "SKIPPED"
            elif device in self.bad or (p["operation"] == "connect" and device in self.on):
                failed, run.results[p["operationID"]] = True, "FAILED"
            else:
                run.results[p["operationID"]] = "COMPLETED"
                self._move(p["operation"], p[self.keys[0]], device)
        run.done = True
        if failed:
            run.status, run.rollback = self.end, self.rollback

    def _move(self, operation: str, source: str, device: str) -> None:
        if operation == "connect":
            assert device not in self.on, "a device was connected twice"
            self.on[device] = source.partition("-")[0]
        else:
            self.on.pop(device)

    def _post(self, call: Request) -> t.Any:
        assert call.effect
        self.before_post(call)
        self.posts.append(call)
        for number, p in enumerate(call.body["procedures"], 1):
            if p.keys() != {"operationID", "operation", "dependencies", *self.keys}:
                raise Refused("not valid", code="E40001")
            assert (p["operationID"], p["dependencies"]) == (number, [])
        if any(not run.done for run in self.runs.values()):
            raise Busy("Already running. Cannot start multiple instances.", code="E40010")
        uid = f"apply-{len(self.runs)}"
        self.runs[uid] = Run(call.body["procedures"], self.looks)
        self.after_post(call)
        return {"applyID": uid}

    def finish_all(self) -> None:
        """Let everything that is going on end."""
        for run in self.runs.values():
            if not run.done:
                self._carry_out(run)


def connected(fake: FakeNec, monkeypatch: t.Any, **options: t.Any) -> driver.NecDriver:
    """A client of it, which looks at once and often."""
    monkeypatch.setattr(polling, "LOOKS", Backoff(0.0002, longest=0.001))
    monkeypatch.setattr(polling, "NOTICE_SECONDS", 0.02)
    monkeypatch.setattr(driver, "Session", lambda *_unused: fake)
    given = {"endpoint": "http://nec", "manager": "nec", "attach_timeout": 5.0, **options}
    return driver.NecDriver(FabricConfig.from_dict(given))
