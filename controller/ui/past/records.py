# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Events of an object and of its pods, and the last lines that this process has logged about it.

Events come from the API server with the permissions of the process, log lines from its memory. Both are
for clients that may see everything, because their sentences may name other tenants.
"""

from __future__ import annotations

import re
import threading
import time
import typing as t
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ansible_collections.composable.infra.controller.ui.past.audit import History
from ansible_collections.composable.infra.controller.ui.scope import CLAIM, NODE, Scope
from ansible_collections.composable.infra.controller.ui.story import DEVICE, pods_of
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import EVENTS
from ansible_collections.composable.infra.plugins.module_utils.kube.client.transport import Limits
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState

# The most Events and log lines of an answer, characters of a message, and Events read of one object.
MOST_EVENTS, MOST_LINES, MOST_CHARACTERS, MOST_READ = 30, 30, 1000, 200
# Answers in flight, seconds for which one is kept, and the number of kept ones.
AT_ONCE, KEEP_SECONDS, KEPT = 4, 5.0, 64
LIMITS: t.Final = Limits(connect=2.0, read=4.0, patience=5.0)
# Namespace of the Events of objects without a namespace.
OF_CLUSTER: t.Final = "default"
NOT_FOR_ONE: t.Final = ("Events and log lines may name other tenants, so only users who may see everything get them. "
                        "kubectl describe shows the Events that you may read.")
NOT_PERMITTED: t.Final = ("The account of the controllers may not list Events. Apply deploy/ui/rbac.yaml, "
                          "or read the Events with kubectl describe.")
BUSY: t.Final = "Other pages read Events now. This page tries again every 15 s."
# Credentials that a message of another program may contain: of an address, and of a header.
_SECRETS: t.Final = (re.compile(r"(?<=://)[^/\s@]+(?=@)"),
                     re.compile(r"(?i)(?<=bearer )\S+|(?<=basic )[A-Za-z0-9+/=]{8,}"),
                     re.compile(r"(?i)(?<=token=)[^\s&]+|(?<=password=)[^\s&]+"))


@dataclass(frozen=True, slots=True)
class _Subject:
    """An object with Events. ``uid``: empty if Events name it otherwise."""

    kind: str
    name: str
    namespace: str
    uid: str = ""


class Records:
    """Read Events and log lines. Thread-safe.

    ``history``: the entries of the process's reporter.
    """

    def __init__(self, state: ClusterState, client: Client, history: History,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._state, self._client, self._history, self._clock = state, client, history, clock
        self._turns, self._lock = threading.Semaphore(AT_ONCE), threading.Lock()
        self._kept: OrderedDict[str, tuple[float, Json]] = OrderedDict()

    def of(self, key: str, scope: Scope) -> Json:
        """Return ``events`` and ``log`` of a claim, a node or a device, the newest first.

        ``note``: why there are no Events.
        """
        if scope.namespace is not None:
            return {"note": NOT_FOR_ONE} if scope.shows(key) else {}
        return {**self._events(key), "log": list(self._lines(key))}

    def _events(self, key: str) -> Json:
        with self._lock:
            at, known = self._kept.get(key, (0.0, {}))
            if known and self._clock() - at < KEEP_SECONDS:
                return known
        if not self._turns.acquire(blocking=False):
            return {"note": BUSY}
        try:
            found = self._read(key)
        finally:
            self._turns.release()
        with self._lock:
            self._kept[key] = (self._clock(), found)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found

    def _read(self, key: str) -> Json:
        found: list[Json] = []
        try:
            for subject in self._subjects(key):
                found += map(_event, self._list(subject))
        except Forbidden:
            return {"note": NOT_PERMITTED}
        except ApiError as error:
            return {"note": f"The Events could not be read: {error.message}"}
        return {"events": sorted(found, key=lambda each: -each["at"])[:MOST_EVENTS]}

    def _list(self, subject: _Subject) -> list[Json]:
        chosen = {"kind": subject.kind, "name": subject.name, "uid": subject.uid}
        selector = ",".join(f"involvedObject.{name}={value}" for name, value in chosen.items() if value)
        answer = self._client.raw("GET", EVENTS.path(namespace=subject.namespace), limits=LIMITS,
                                  query={"fieldSelector": selector, "limit": MOST_READ})
        return list(answer.get("items") or ())

    def _subjects(self, key: str) -> Iterator[_Subject]:
        kind, _unused, rest = key.partition("/")
        if kind == NODE and self._state.nodes.value(rest):
            yield _Subject("Node", rest, OF_CLUSTER)  # the kubelet gives the node's name as its UID
        elif kind == DEVICE and (found := self._state.resources.value(rest)):
            yield _Subject("ComposableResource", rest, OF_CLUSTER, found.uid)
        elif kind == CLAIM:
            namespace, _unused, name = rest.partition("/")
            claim = self._state.claims.value(name, namespace)
            if claim:
                yield _Subject("ResourceClaim", name, namespace, claim.uid)
                for pod, uid in pods_of(self._state, claim).items():
                    yield _Subject("Pod", pod, namespace, uid)

    def _lines(self, key: str) -> Iterator[Json]:
        """Yield the last lines about an object: of a node, also those about its devices."""
        kind, _unused, rest = key.partition("/")
        found = [each for each in self._history() if _is_about(each, kind, rest)]
        for each in reversed(found[-MOST_LINES:]):
            yield {"at": each["time"], "type": each["type"], "reason": each["reason"],
                   "message": cleaned(f"{each['about']}: {each['message']}")}


def _is_about(entry: Json, kind: str, name: str) -> bool:
    if kind == CLAIM:
        return name in entry["claims"] or entry["about"] == name
    if kind == NODE:
        return entry.get("node") == name or name in re.split(r"[\s/=']", str(entry["about"]))
    return bool(entry["about"] == name)


def _event(raw: Json) -> Json:
    """Return an Event for the page. The API server has two generations of times and counts."""
    series, source = raw.get("series") or {}, raw.get("source") or {}
    at = max(map(parse_time, (series.get("lastObservedTime"), raw.get("lastTimestamp"), raw.get("eventTime"),
                              raw.get("firstTimestamp"))))
    return {"at": at, "type": raw.get("type") or "Normal", "kind": (raw.get("involvedObject") or {}).get("kind") or "",
            "reason": cleaned(str(raw.get("reason") or "")), "message": cleaned(str(raw.get("message") or "")),
            "count": series.get("count") or raw.get("count") or 1,
            "from": str(raw.get("reportingComponent") or source.get("component") or "")}


def cleaned(text: str) -> str:
    """Return a message of at most MOST_CHARACTERS, without credentials."""
    for secret in _SECRETS:
        text = secret.sub("***", text)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
