# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Server-side times of writes, from the API server's audit log. No watch adds its delay to these
times.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims

SCHEDULER = "system:kube-scheduler"
WRITES = ("create", "update", "patch", "delete")


@dataclass(slots=True)
class ClaimMarks:
    """Times of one claim in epoch seconds."""

    created: float = 0.0
    allocated: float = 0.0
    condition: float = 0.0
    opened: float = 0.0
    bound: float = 0.0
    running: float = 0.0
    node: str = ""


def entries(path: Path) -> Iterator[dict[str, t.Any]]:
    """Yield successful, completed requests in the order of the log, without a half-written last
    line.
    """
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                entry = json.loads(line)
                if entry["stage"] == "ResponseComplete" and entry["responseStatus"]["code"] < 300:
                    yield entry


def requests_of(path: Path, user: str) -> Iterator[dict[str, t.Any]]:
    """Yield the requests of a user, including failed ones, each once: a watch at its begin, others
    at their end.
    """
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n") and user in line:
                entry = json.loads(line)
                wanted = "ResponseStarted" if entry["verb"] == "watch" else "ResponseComplete"
                if entry["user"]["username"] == user and entry["stage"] == wanted:
                    yield entry


def moment(entry: dict[str, t.Any]) -> float:
    """Return when the answer was complete."""
    return datetime.fromisoformat(entry["stageTimestamp"]).timestamp()


def claim_marks(path: Path, controller: str) -> dict[str, ClaimMarks]:
    """Return ClaimMarks by claim name, which is the pod's name. ``controller``: user name of the
    controller.
    """
    marks: dict[str, ClaimMarks] = {}
    for entry in entries(path):
        ref, user = entry["objectRef"], entry["user"]["username"]
        kind, sub, name = ref["resource"], ref.get("subresource", ""), ref.get("name", "")
        if kind == "resourceclaims" and entry["verb"] == "create":
            marks[name] = ClaimMarks(created=moment(entry))
        elif name not in marks:
            continue
        elif kind == "resourceclaims" and sub == "status" and user == SCHEDULER:
            _allocated(marks[name], entry)
        elif kind == "resourceclaims" and sub == "status" and user == controller:
            marks[name].condition = marks[name].condition or moment(entry)
        elif kind == "pods":
            _pod(marks[name], entry, sub, user == controller)
    return marks


def _pod(mark: ClaimMarks, entry: dict[str, t.Any], sub: str, ours: bool) -> None:
    body = entry.get("requestObject") or {}
    if sub == "binding":
        mark.bound = moment(entry)
    elif ours and not sub and "schedulingGates" in (body.get("spec") or {}):
        mark.opened = moment(entry)
    elif sub == "status" and (body.get("status") or {}).get("phase") == "Running":
        mark.running = mark.running or moment(entry)


def _allocated(mark: ClaimMarks, entry: dict[str, t.Any]) -> None:
    node = claims.node(entry.get("requestObject") or {})
    if not mark.allocated and node:
        mark.allocated, mark.node = moment(entry), node


def write_seconds(path: Path, user: str, since: float) -> list[float]:
    """Return how long the API server took for each write of a user that arrived after ``since``."""
    received = ((entry, datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp())
                for entry in entries(path) if entry["user"]["username"] == user and entry["verb"] in WRITES)
    return [moment(entry) - came for entry, came in received if came > since]


def visible(path: Path, since: float = 0.0) -> dict[str, tuple[float, str]]:
    """Return (moment, node) by GPU UUID: when the node's ResourceSlice first showed it after
    ``since``.
    """
    found: dict[str, tuple[float, str]] = {}
    for entry in entries(path):
        spec = (entry.get("requestObject") or {}).get("spec") or {}
        if entry["objectRef"]["resource"] != "resourceslices" or not spec.get("nodeName") or moment(entry) <= since:
            continue
        for device in spec.get("devices") or []:
            uuid = (device.get("attributes") or {}).get("uuid", {}).get("string")
            if uuid:
                found.setdefault(uuid, (moment(entry), spec["nodeName"]))
    return found
