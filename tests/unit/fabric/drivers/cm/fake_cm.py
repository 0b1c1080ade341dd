# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Cluster Manager of one machine in memory, which a test can let count, fail and lose replies as it likes."""

from __future__ import annotations

import threading
import typing as t
from dataclasses import dataclass, field

from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.cm import driver
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.fm.driver import FmDriver
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import FabricError, Missing, Refused
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import JsonResponse, Request
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.session import Session
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations import polling
from ansible_collections.composable.infra.plugins.module_utils.net.backoff import Backoff

TENANT = "7e63fd31-0a5c-4d1b-9a52-c0de00000001"
CLUSTER = "7e63fd31-0a5c-4d1b-9a52-c0de0000c1c1"
MACHINE, MODEL, SPEC = "m-1", "A100", "spec-1"
# Names of what is under way are not documented: two that CM may well use.
ADDING, REMOVING = "ADD_IN_PROGRESS", "REMOVE_IN_PROGRESS"


@dataclass
class Item:
    """A device; ``looks``: reads of the document until it has reached ``end``."""

    uid: str
    status: str
    looks: int = 0
    end: str = "ADD_COMPLETE"
    reason: str = ""
    op_status: str = "00"
    named: bool = True

    def raw(self) -> dict[str, t.Any]:
        detail = {"res_uuid": self.uid, "fabric_id": 1, "res_op_status": self.op_status, "res_name": f"name-{self.uid}"}
        return {
            "device_id": f"GPU-{self.uid}" if self.named else "", "status": self.status, "status_reason": self.reason,
            "detail": detail if self.named else None,
        }


@dataclass
class FakeCm:
    """``reading``: ``all`` counts what is under way, ``complete`` does not, ``harsh`` does not even know of it.

    ``replies``: by the end of a path, in place of the machine's document.
    """

    reading: str = "all"
    items: list[Item] = field(default_factory=list)
    free: int = 100
    looks: int = 2
    ends: list[str] = field(default_factory=list)
    most: int | None = None
    before_post: t.Callable[[Request], None] = lambda call: None
    after_post: t.Callable[[Request], None] = lambda call: None
    posts: list[dict[str, t.Any]] = field(default_factory=list)
    reads: int = 0
    made: int = 0
    failing_reads: list[FabricError] = field(default_factory=list)
    failing_counts: list[FabricError] = field(default_factory=list)
    replies: dict[str, t.Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def call(self, call: Request) -> JsonResponse:
        with self._lock:
            if call.method != "POST":
                return JsonResponse(200, {}, self._get(call))
            self._post(call)
            return JsonResponse(204, {}, None)

    def close(self) -> None:
        """Nothing is kept."""

    def redact(self, text: str) -> str:
        return text

    def count(self) -> int:
        done = ("ADD_COMPLETE", "REMOVE_FAILED", REMOVING)
        return len(self.items) if self.reading == "all" else sum(i.status in done for i in self.items)

    def add(self, uid: str, **more: t.Any) -> Item:
        self.items.append(Item(uid, ADDING, **more))
        return self.items[-1]

    def _get(self, call: Request) -> t.Any:
        for end, reply in self.replies.items():
            if call.path.endswith(end):
                return reply
        if "available-reserved-resources" in call.path:
            if self.failing_counts:
                raise self.failing_counts.pop(0)
            return {"reserved_res_num_per_fabric": self.free}
        if "/fabric_manager/" in call.path:
            return {"data": {"machines": [{"mach_uuid": MACHINE, "fabric_id": 7, "resources": []}]}}
        self.reads += 1
        if self.failing_reads:
            raise self.failing_reads.pop(0)
        if f"/machines/{MACHINE}" not in call.path:
            raise Missing("no such machine")
        self._advance()
        return self.document()

    def _advance(self) -> None:
        for item in list(self.items):
            if item.status in (ADDING, REMOVING):
                item.looks -= 1
                if item.looks <= 0 and item.end == "GONE":
                    self.items.remove(item)
                    self.free += 1
                elif item.looks <= 0:
                    item.status, item.named = item.end, True

    def document(self) -> dict[str, t.Any]:
        conditions = [{"column": "model", "operator": "eq", "value": MODEL}]
        spec = {
            "spec_uuid": SPEC, "type": "gpu", "selector": {"version": "v1", "expression": {"conditions": conditions}},
            "min_resspec_count": None, "max_resspec_count": self.most, "device_count": self.count(),
            "devices": [item.raw() for item in self.items],
        }
        machine = {"uuid": MACHINE, "name": "node-1", "resspecs": [spec]}
        return {"data": {"tenant_uuid": TENANT, "cluster": {"cluster_uuid": CLUSTER, "machine": machine}}}

    def _post(self, call: Request) -> None:
        assert call.path.endswith(f"/machines/{MACHINE}/actions/resize")
        assert call.effect
        self.before_post(call)
        self.posts.append(call.body)
        if "increase_resource_count" in call.body:
            self._increase(call.body["increase_resource_count"])
        else:
            self._remove(call.body["remove_resources"])
        self.after_post(call)

    def _increase(self, body: dict[str, t.Any]) -> None:
        assert body.keys() == {"spec_uuid", "device_count"}
        assert body["spec_uuid"] == SPEC
        known = sum(i.status in ("ADD_COMPLETE", "REMOVE_FAILED") for i in self.items)
        base = {"all": len(self.items), "complete": known + sum(i.status == ADDING for i in self.items)}
        more = body["device_count"] - base.get(self.reading, known)
        if more > self.free:
            raise Refused("not enough")
        for _unused in range(more):
            self.made += 1
            self.free -= 1
            end = self.ends.pop(0) if self.ends else "ADD_COMPLETE"
            self.add(f"new-{self.made}", looks=self.looks, end=end, reason="link training" if "FAIL" in end else "")

    def _remove(self, body: dict[str, t.Any]) -> None:
        ids = {f"GPU-{item.uid}": item for item in self.items}
        going = [ids.get(serial) for serial in body["devices"]]
        if None in going:
            raise Missing("no such device")
        counted = [i for i in going if i and (self.reading == "all" or i.status != "ADD_FAILED")]
        if body["device_count"] != self.count() - len(counted):
            raise Refused("device_count does not fit the devices")
        for item in going:
            if item is not None:
                end = self.ends.pop(0) if self.ends else "GONE"
                item.status, item.looks, item.end, item.reason = REMOVING, self.looks, end, "in use"


def connected(fake: FakeCm, monkeypatch: t.Any, **options: t.Any) -> driver.CmDriver:
    """A client of it, which looks at once and often."""
    monkeypatch.setattr(polling, "LOOKS", Backoff(0.0002, longest=0.001))
    monkeypatch.setattr(polling, "NOTICE_SECONDS", 0.02)
    login = dict.fromkeys(("username", "password", "realm", "client_id", "client_secret"), "x")
    where = {"endpoint": "https://cm", "manager": "cm", "tenant": TENANT, "cluster": CLUSTER}
    config = FabricConfig.from_dict({**where, **login, "attach_timeout": 5.0, **options})
    session = t.cast(Session, fake)
    return driver.CmDriver(config, session, FmDriver(config, session))
