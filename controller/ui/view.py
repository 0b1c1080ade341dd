# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of the page.

Changes are noted when they happen, and the rows are updated at the next refresh.

While no page is open, nothing is noted and no row is kept.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
import typing as t
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from ansible_collections.composable.infra.controller.ui import read_rows
from ansible_collections.composable.infra.controller.ui.device_counts import DeviceCounts
from ansible_collections.composable.infra.controller.ui.rows import NodeRow, ProcessRow, plain
from ansible_collections.composable.infra.controller.ui.scope import (
    BOX,
    FABRIC,
    MACHINE,
    NODE,
    PROCESS,
    SWITCH,
    Scope,
    claim_key,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricSnapshot
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    NODES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.keys import key_of
from ansible_collections.composable.infra.plugins.module_utils.model.pod import Pod
from ansible_collections.composable.infra.plugins.module_utils.model.resource import Resource
from ansible_collections.composable.infra.plugins.module_utils.model.slice import Slice
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.reconcile.fabric_claims import concerns
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values import resource_values

# Changes that are kept for pages that were disconnected for a moment.
KEPT_CHANGES = 512
log = logging.getLogger("composable.infra")


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of the rows.

    ``reasons``: returns wait reasons of claims by namespace/name. ``process``: returns the row of
    the process.
    """

    state: ClusterState
    reasons: Callable[[], Mapping[str, WaitReason]]
    process: Callable[[], ProcessRow]


@dataclass(frozen=True, slots=True)
class Change:
    """Rows that are new or changed, and keys of rows that are gone."""

    number: int
    rows: Mapping[str, Json]
    gone: tuple[str, ...]

    def text(self, scope: Scope) -> str:
        """Return the change as JSON for a scope, empty if the scope shows nothing of it."""
        rows = {key: scope.shown(key, row) for key, row in self.rows.items() if scope.shows(key)}
        gone = [key for key in self.gone if scope.shows(key)]
        return compact({"rows": rows, "gone": gone}) if rows or gone else ""


def compact(value: object) -> str:
    """Return JSON without spaces."""
    return json.dumps(value, separators=(",", ":"))


@dataclass(slots=True)
class _Due:
    """The objects with rows that must be read again."""

    nodes: set[str] = field(default_factory=set)
    claims: set[tuple[str, str]] = field(default_factory=set)
    fabrics: bool = False


class View:
    """Rows by key. Thread-safe.

    ``name``: a random name of this instance, because numbers of changes restart with the process.
    """

    def __init__(self, sources: Sources) -> None:
        self.name = secrets.token_hex(4)
        self._sources, self._state = sources, sources.state
        self._lock, self._noting = threading.RLock(), threading.Lock()
        self._due: _Due | None = None
        self._forget()
        self.number = 0

    def _forget(self) -> None:
        self._rows: dict[str, Json] = {}
        self._texts: dict[str, str] = {}
        self._counts = DeviceCounts()
        self._reasons: Mapping[str, WaitReason] = {}
        self._seen: FabricSnapshot | None = None
        self._switches: set[str] = set()
        self._changes: deque[Change] = deque(maxlen=KEPT_CHANGES)

    def open(self) -> None:
        """Note changes from now on, and read everything once. Call it when a page opens."""
        with self._lock:
            if self._due is None:
                self._due = _Due()
                self._all_due()
                self.refresh()

    def close(self) -> None:
        """Drop all rows. Call it when no page is open."""
        with self._lock:
            self._due = None
            self.number += 1  # A page that returns has missed changes.
            self._forget()

    def _all_due(self) -> None:
        state = self._state
        names = state.nodes.names() | {str(name) for name in state.resources.keys("node")}
        keys = state.claims.all_keys()
        self._note(names, keys, fabrics=True)

    def object_changed(self, kind: str, resource: ApiResource, obj: t.Any, old: t.Any) -> None:
        """Note the rows that a changed object concerns.

        It runs on the thread of the watch, so it must be quick.
        """
        if self._due is None:
            return
        for each in (obj, old):
            if each is not None:
                self._note_object(resource, each)

    def _note_object(self, resource: ApiResource, obj: t.Any) -> None:
        if isinstance(obj, Slice):
            self._note({obj.node} if obj.node else (), fabrics=not obj.node)
        elif isinstance(obj, Resource):
            self._note({obj.node}, self._claims_of(obj))
        elif resource == NODES:
            self._note({obj.name})
        elif resource == CLAIMS:
            self._note(map(str, self._state.claims.places("node", obj)), {key_of(obj)})
        elif isinstance(obj, Pod) and obj.spec.get("resourceClaims"):
            self._note(claims_={(obj.namespace, name) for name in obj.claims.values() if name})

    def _claims_of(self, resource: Resource) -> set[tuple[str, str]]:
        meant, user = resource_values.noted_claim(resource), self._state.user(resource)
        found = {claim.key for claim in (meant, user) if claim}
        return {(namespace, name) for namespace, _unused, name in (key.partition("/") for key in found)}

    def _note(self, nodes_: Iterable[str] = (), claims_: Iterable[tuple[str, str]] = (), *,
              fabrics: bool = False) -> None:
        with self._noting:
            if self._due is not None:
                self._due.nodes.update(nodes_)
                self._due.claims.update(claims_)
                self._due.fabrics = self._due.fabrics or fabrics

    def refresh(self) -> Change | None:
        """Read the rows that may have changed. Return the change, None if no row has changed."""
        with self._lock:
            if self._due is None:
                return None
            self._note_reasons()
            looked = self._note_look()
            with self._noting:
                due, self._due = self._due, _Due()
            new = dict(self._read(due, looked))
            rows = {key: row for key, row in new.items() if row is not None and self._rows.get(key) != row}
            gone = tuple(key for key, row in new.items() if row is None and key in self._rows)
            if not rows and not gone:
                return None
            self.number += 1
            self._put(rows, gone)
            change = Change(self.number, rows, gone)
            self._changes.append(change)
            return change

    def _put(self, rows: Mapping[str, Json], gone: Iterable[str]) -> None:
        self._rows.update(rows)
        self._texts.update({key: compact(row) for key, row in rows.items()})
        for key in gone:
            del self._rows[key], self._texts[key]

    def _note_reasons(self) -> None:
        """Note the claims with a wait reason that has changed."""
        now, before = self._sources.reasons(), self._reasons
        self._reasons = now
        keys = (key for key in {*now, *before} if now.get(key) != before.get(key))
        self._note(claims_={(space, name) for space, _unused, name in (key.partition("/") for key in keys)})

    def _note_look(self) -> set[str]:
        """Return the uids of machines that differ in the last poll of the fabric.

        Note their nodes.
        """
        new, old = self._state.snapshot, self._seen
        if new is old or new is None:
            return set()
        self._seen = new
        before = old.machines if old else {}
        found = {uid for uid in {*new.machines, *before} if new.machines.get(uid) is not before.get(uid)}
        if found or old is None or _free(new) != _free(old):
            self._note({name for uid in found for name in self._state.nodes.names_at("machine", uid)},
                       fabrics=True)
        return found

    def _read(self, due: _Due, machines: set[str]) -> Iterator[tuple[str, Json | None]]:
        """Yield (key, row) of the noted objects. The row is None if it is gone."""
        counted, uses = False, read_rows.Uses(self._state)
        for key, read in self._node_readers(due, machines, uses):
            row = _safely(key, read)
            counted = self._counts.count(key, row) or counted
            yield key, plain(row) if row else None
        for place in due.claims:
            yield claim_key(*place), self._claim(*place, uses)
        if due.fabrics or counted:
            models = self._counts.models
            for number in sorted(read_rows.fabrics(self._state) | {place[0] for place in models}):
                yield f"{FABRIC}/{number}", plain(read_rows.fabric_row(self._state, number, models))
            yield from self._boxes(looked=due.fabrics)
        if due.fabrics:
            yield from self._linked()
        yield PROCESS, plain(self._sources.process())

    def _boxes(self, *, looked: bool) -> Iterator[tuple[str, Json | None]]:
        """Yield the boxes that may have changed. After a poll of the fabric, yield all boxes."""
        free = read_rows.free_in_boxes(self._state)
        if looked:
            self._counts.seen(free)
        for place in self._counts.changed():
            row = read_rows.box_row(*place, free.get(place, {}), self._counts.boxes[place])
            yield f"{BOX}/{place[0]}/{place[1]}", plain(row) if row else None

    def _linked(self) -> Iterator[tuple[str, Json | None]]:
        """Yield all switches of the last poll."""
        seen = self._state.snapshot
        rows = {f"{SWITCH}/{row.fabric}/{row.switch}": row for row in (read_rows.switch_rows(seen) if seen else ())}
        yield from ((key, None) for key in self._switches - rows.keys())
        yield from ((key, plain(row)) for key, row in rows.items())
        self._switches = set(rows)

    def _node_readers(self, due: _Due, machines: set[str],
                      uses: read_rows.Uses) -> Iterator[tuple[str, Callable[[], NodeRow | None]]]:
        state = self._state
        uids = machines | {uid for name in due.nodes if (node := state.nodes.value(name)) and (uid := node.machine)}
        for name in due.nodes:
            yield f"{NODE}/{name}", partial(read_rows.node_row, state, name, uses)
        for uid in uids:
            yield f"{MACHINE}/{uid}", partial(read_rows.machine_row, state, uid)

    def _claim(self, namespace: str, name: str, uses: read_rows.Uses) -> Json | None:
        claim, reason = self._state.claims.value(name, namespace), self._reasons.get(f"{namespace}/{name}")
        if claim is None or not (reason or concerns(claim, self._state.settings)):
            return None
        row: Json | None = plain(_safely(name, lambda: read_rows.claim_row(claim, reason, uses)))
        return row

    def snapshot(self, scope: Scope) -> str:
        """Return all rows as JSON, with the number of the last change, and the time of this
        process.
        """
        with self._lock:
            if scope.namespace is None:
                rows = ",".join(f"{compact(key)}:{text}" for key, text in self._texts.items())
            else:
                rows = ",".join(f"{compact(key)}:{compact(scope.shown(key, row))}"
                                for key, row in self._rows.items() if scope.shows(key))
            now = compact(round(self._state.clock(), 3))
            return f'{{"at":{compact(self.position)},"now":{now},"rows":{{{rows}}}}}'

    @property
    def position(self) -> str:
        """Name of this view and number of its last change."""
        return f"{self.name}-{self.number}"

    def row(self, key: str) -> Json | None:
        """Return one row with all its fields."""
        with self._lock:
            return self._rows.get(key)

    def since(self, position: str) -> list[Change] | None:
        """Return the changes after a position, None if some of them are no longer kept."""
        name, _unused, number = position.partition("-")
        with self._lock:
            if name != self.name or not number.isdecimal() or int(number) > self.number:
                return None
            missed = self.number - int(number)
            found = [change for change in self._changes if change.number > int(number)]
            return found if len(found) == missed else None


def _free(seen: FabricSnapshot) -> tuple[object, ...]:
    """Return the parts of an inventory other than machines."""
    return seen.free, seen.problems, seen.free_in_boxes, seen.switches


def _safely(what: str, read: Callable[[], t.Any]) -> t.Any:
    """Read an object. If that fails, log it and return None, so that other rows are shown."""
    try:
        return read()
    except Exception as problem:
        log.warning("cannot show %s on the page: %s", what, type(problem).__name__)
        return None
