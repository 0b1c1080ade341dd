# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit of requests, attaches, returns and refusals, with times and reasons, also of devices that are gone.

Its source is the watch of ComposableResources, so a process that does not lead has it, too. Only the
process that leads knows why it refuses a claim or returns a device.
"""

from __future__ import annotations

import heapq
import threading
import time
import typing as t
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter

from ansible_collections.composable.infra.controller.ui.rows import plain
from ansible_collections.composable.infra.controller.ui.scope import Scope
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.model.resource import Resource
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.planning.node.compose import ONLINE
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values import resource_values

History = Callable[[], Iterable[Json]]
"""Returns the entries of an EventReporter, the oldest first."""
MOST: t.Final = 2000
REQUESTED, ATTACHED, RETURNED, REFUSED, FAILED = "requested", "attached", "returned", "refused", "failed"
# Reasons of the history: claims that are refused, and devices that are returned.
_REFUSALS, _RETURNS = frozenset({"GateReleased"}), frozenset({"Releasing"})
# Fields that a namespace may see. A sentence may name other tenants.
_OF_A_NAMESPACE = frozenset({"at", "what", "device", "uuid", "model", "node", "claims", "pods"})


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One event of a device or a claim.

    ``at``: seconds since the epoch. ``what``: requested, attached, returned, refused or failed.
    ``device``: name of the ComposableResource. ``claims``: namespace/name of the claims that it is for.
    ``pods``: of these claims. ``why``: a sentence, empty if it is not known.
    """

    at: float
    what: str
    device: str = ""
    uuid: str = ""
    model: str = ""
    node: str = ""
    claims: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    why: str = field(default="", compare=False)


# The order of entries as a key, because a sort that compares entry by entry takes five times as long.
_ORDER = attrgetter(*(each.name for each in fields(Entry) if each.compare))


class Audit:
    """The latest ``most`` entries. Thread-safe.

    ``history``: of the process's reporter. ``clock``: returns seconds since the epoch.
    """

    def __init__(self, state: ClusterState, history: History, clock: Callable[[], float] = time.time,
                 most: int = MOST) -> None:
        self._state, self._history, self._clock, self._most = state, history, clock, most
        self._began = clock()
        self._lock = threading.Lock()
        # A heap, because the first list has the devices in no order of time.
        self._entries: list[Entry] = []

    def object_changed(self, kind: str, _resource: ApiResource, obj: t.Any, old: t.Any) -> None:
        """Note a change of a ComposableResource, on the watch's thread."""
        if isinstance(obj, Resource):
            before = old if isinstance(old, Resource) and kind != "ADDED" else None
            with self._lock:
                for entry in self._of(kind, obj, before):
                    put = heapq.heappush if len(self._entries) < self._most else heapq.heappushpop
                    put(self._entries, entry)

    def _of(self, kind: str, new: Resource, old: Resource | None) -> Iterator[Entry]:
        now = self._clock()
        entry = self._entry(new, now)
        if kind == "DELETED":
            yield replace(entry, what=RETURNED if entry.uuid else FAILED, why="" if entry.uuid else new.error)
            return
        if old is None:
            created = new.created or now
            yield replace(entry, at=created, what=REQUESTED, why="" if entry.claims else "for no claim")
            if new.state == ONLINE:
                early = created < self._began
                yield replace(entry, at=created if early else now, what=ATTACHED,
                              why="before this process started" if early else "")
        elif new.state == ONLINE and old.state != ONLINE:
            yield replace(entry, what=ATTACHED)
        if new.error and (old is None or new.error != old.error):
            yield replace(entry, what=FAILED, why=new.error)

    def _entry(self, found: Resource, at: float) -> Entry:
        meant = resource_values.noted_claim(found)
        return Entry(at, REQUESTED, found.name, found.serial, found.model, found.node,
                     (meant.key,) if meant else (), self._pods(meant.key) if meant else ())

    def _pods(self, key: str) -> tuple[str, ...]:
        namespace, _unused, name = key.partition("/")
        claim = self._state.claims.value(name, namespace)
        return tuple(pod for pod, _uid in claim.pods) if claim else ()

    def read(self, scope: Scope, most: int = MOST) -> Json:
        """Return the newest ``most`` entries of a scope, the newest first.

        ``more``: the number of older entries. ``says``: how far the entries reach, in a sentence.
        """
        with self._lock:
            known = list(self._entries)
        history = list(self._history())
        reasons = {each["about"]: str(each["message"]) for each in history if each["reason"] in _RETURNS}
        known = [replace(each, why=reasons.get(each.device, "")) if each.what == RETURNED else each for each in known]
        known += [Entry(each["time"], REFUSED, claims=tuple(each["claims"]), pods=(_pod(each["about"]),),
                        why=each["message"]) for each in history if each["reason"] in _REFUSALS]
        newest = sorted(known, key=_ORDER, reverse=True)[:self._most]
        visible = [each for each in newest if _shows(scope, each)]
        shown = [plain(each) for each in visible[:most]]
        if scope.namespace is not None:
            shown = [{name: value for name, value in each.items() if name in _OF_A_NAMESPACE} for each in shown]
        return {"entries": shown, "began": self._began, "more": max(0, len(visible) - most),
                "says": self._says(len(newest))}

    def _says(self, number: int) -> str:
        began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self._began))
        if number >= self._most:
            return f"These are the latest {self._most} entries."
        return (f"This process has watched since {began}. It knows no earlier devices except those that still existed "
                "then.")


def _shows(scope: Scope, entry: Entry) -> bool:
    """Return whether a scope shows an entry. A namespace sees those of its own claims only."""
    if scope.namespace is None:
        return True
    return bool(entry.claims) and all(key.startswith(f"{scope.namespace}/") for key in entry.claims)


def _pod(about: str) -> str:
    return about.partition("/")[2]
