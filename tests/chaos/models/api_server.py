# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server in memory that is as strict as the real one in all that the engine depends on.

UIDs are never used twice, and resourceVersions only after a restore of etcd. Preconditions are
checked. Finalizers keep deleted objects. Status is a subresource. A change without a difference
makes no event. A watch begins at its version, ends, and may be too old, or of the future.
"""

from __future__ import annotations

import json
import typing as t
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from ansible_collections.composable.infra.plugins.module_utils.kube import api_resources
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import ApiResource
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.tests.chaos.models import patches
from ansible_collections.composable.infra.tests.chaos.models.patches import Json

TAINT_RULES = ApiResource("resource.k8s.io/v1alpha3", "devicetaintrules", "DeviceTaintRule", False)
KINDS = {kind.plural: kind for kind in (*vars(api_resources).values(), TAINT_RULES) if isinstance(kind, ApiResource)}
_WITH_STATUS = frozenset({"pods", "nodes", "resourceclaims", "composabilityrequests", "composableresources",
                          "provisioningrequests"})
Key = tuple[str, str, str]
OnChange = Callable[[str, str, Json, "Json | None"], object]


class Refusal(Exception):
    """An answer other than 2xx. ``cause``: the reason of its only cause."""

    def __init__(self, status: int, reason: str, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.status, self.reason, self.cause = status, reason, cause

    def body(self, name: str = "x") -> bytes:
        """Return the metav1.Status."""
        causes = {"causes": [{"reason": self.cause, "message": str(self)}]} if self.cause else {}
        return json.dumps({"kind": "Status", "code": self.status, "reason": self.reason, "message": str(self),
                           "details": {"name": name, **causes}}).encode()


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it came in. ``point`` names it by the verb, the kind, and the subresource if
    there is one.
    """

    method: str
    kind: ApiResource
    namespace: str
    name: str
    subresource: str
    query: t.Mapping[str, str]
    body: Json
    content_type: str

    @property
    def point(self) -> str:
        verb = {"POST": "create", "PUT": "replace", "PATCH": "patch", "DELETE": "delete"}.get(self.method)
        verb = verb or ("watch" if "watch" in self.query else "get" if self.name else "list")
        return f"{verb} {self.kind.plural}" + (f"/{self.subresource}" if self.subresource else "")


@dataclass
class Watch:
    """An open watch. ``put`` is called with each event, and with None at the end.

    ``since``: the version after which it begins.
    """

    kind: str
    selects: Callable[[Json], bool]
    put: Callable[[bytes | None], object]
    since: int = 0
    known: set[Key] = field(default_factory=set)


@dataclass
class ApiServer:
    """The server.

    ``wall``: its clock. ``taint_rules``: whether DeviceTaintRule is served. ``on_change(kind, type,
    object, old)``: called at once for every change.
    """

    wall: Callable[[], float]
    taint_rules: bool = True
    on_change: list[OnChange] = field(default_factory=list)
    objects: dict[Key, Json] = field(default_factory=dict)
    version: int = 1000
    oldest: int = 1000
    _made: int = 0
    # Version, key, type, object, the object before, and the time.
    _history: deque[tuple[int, Key, str, Json, Json | None, float]] = field(default_factory=deque)
    _watches: list[Watch] = field(default_factory=list)

    def of(self, plural: str) -> list[Json]:
        """Return all objects of a kind. The caller must not change them."""
        return [obj for key, obj in self.objects.items() if key[0] == plural]

    def find(self, plural: str, name: str, namespace: str = "") -> Json | None:
        """Return one object. The caller must not change it."""
        return self.objects.get((plural, namespace, name))

    def handle(self, call: Call) -> bytes:
        """Return the answer to a request other than a watch. Raise Refusal."""
        if call.kind is TAINT_RULES and not self.taint_rules:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        if call.method == "GET":
            return json.dumps(self._read(call)).encode()
        if call.method == "POST":
            return json.dumps(self.create(call.kind.plural, call.body, call.namespace,
                                          dry_run="dryRun" in call.query)).encode()
        if call.method == "DELETE":
            left = self.delete(call.kind.plural, call.name, call.namespace,
                               (call.body.get("preconditions") or {}).get("uid"))
            return json.dumps(left or {"kind": "Status"}).encode()
        return json.dumps(self._change(call)).encode()

    def discovery(self, path: str) -> bytes:
        """Return the resources of a group, as far as the engine needs them. Raise Refusal."""
        if path == "/apis/resource.k8s.io/v1alpha3" and self.taint_rules:
            return json.dumps({"resources": [{"name": TAINT_RULES.plural}]}).encode()
        if path == "/apis/resource.k8s.io/v1":
            return json.dumps({"resources": [{"name": "resourceclaims"}]}).encode()
        raise Refusal(404, "NotFound", "the server could not find the requested resource")

    def create(self, plural: str, body: Json, namespace: str = "", dry_run: bool = False) -> Json:
        """Store a new object. Raise Refusal."""
        meta = body["metadata"]
        self._made += 1
        name = meta.get("name") or f"{meta['generateName']}{self._made:05d}"
        namespace = namespace or meta.get("namespace") or ""
        if (plural, namespace, name) in self.objects:
            raise Refusal(409, "AlreadyExists", f'{plural} "{name}" already exists')
        new = {**body, "metadata": {**meta, "name": name, "uid": f"uid-{self._made}-{name}", "generation": 1,
                                    "creationTimestamp": format_time(self.wall())}}
        if namespace:
            new["metadata"]["namespace"] = namespace
        if plural.startswith("compos"):
            new.pop("status", None)
        new.setdefault("apiVersion", KINDS[plural].group_version)
        new.setdefault("kind", KINDS[plural].kind)
        return new if dry_run else self._store(plural, new, None)

    def delete(self, plural: str, name: str, namespace: str = "", uid: str | None = None) -> Json | None:
        """Delete an object, or mark it if it has finalizers, and return it then. Raise Refusal."""
        old = self._found(plural, name, namespace)
        if uid and uid != old["metadata"]["uid"]:
            raise Refusal(409, "Conflict", f"uid is not {uid}")
        if old["metadata"].get("deletionTimestamp"):
            return old
        mark = {"metadata": {"deletionTimestamp": format_time(self.wall())}}
        new = self._store(plural, patches.merged(old, mark), old)
        return new if new["metadata"].get("finalizers") else None

    def update(self, plural: str, name: str, namespace: str, patch: Json, subresource: str = "") -> Json:
        """Apply a merge patch of a model. Raise Refusal."""
        old = self._found(plural, name, namespace)
        return self._store(plural, patches.merged(old, patch), old)

    def put(self, plural: str, obj: Json) -> Json:
        """Store a whole object of a model, if its version is the current one. Raise Refusal."""
        meta = obj["metadata"]
        old = self._found(plural, meta["name"], meta.get("namespace") or "")
        _check(old, obj)
        return self._store(plural, obj, old)

    def forget_history(self) -> None:
        """Make all versions up to now too old for a watch, and end every open watch with that
        error.
        """
        self._history.clear()
        self.oldest = self.version
        gone = Refusal(410, "Expired", "too old resource version")
        for watch in self._watches:
            watch.put(b'{"type": "ERROR", "object": ' + gone.body() + b"}\n")
        self.drop_watches()

    def rewind(self, seconds: float) -> None:
        """Go back to the state ``seconds`` ago, as after a restore of etcd. Every watch ends.

        Versions are used again for other objects. A watch that begins at a version of the future is
        silent until then.
        """
        since = self.wall() - seconds
        while self._history and self._history[-1][-1] > since:
            version, key, _kind, _obj, old, _when = self._history.pop()
            self.version = version - 1
            if old is None:
                del self.objects[key]
            else:
                self.objects[key] = old
        self._history.clear()
        self.oldest = self.version
        self.drop_watches()

    def drop_watches(self) -> None:
        """End every watch."""
        watches, self._watches = self._watches, []
        for watch in watches:
            watch.put(None)

    def watch(self, call: Call, put: Callable[[bytes | None], object]) -> Watch:
        """Begin a watch at its version. Raise Refusal."""
        if call.query.get("sendInitialEvents"):
            return self._streamed_list(call, put)
        since = int(call.query.get("resourceVersion") or self.version)
        if since < self.oldest:
            raise Refusal(410, "Expired", f"too old resource version: {since}")
        made = Watch(call.kind.plural, _selector(call.query), put, since)
        for version, key, kind, obj, old, _when in self._history:
            if version > since and key[0] == made.kind:
                _tell(made, key, kind, obj, old)
        self._watches.append(made)
        return made

    def _streamed_list(self, call: Call, put: Callable[[bytes | None], object]) -> Watch:
        """Begin a watch with the existing objects (WatchList)."""
        made = Watch(call.kind.plural, _selector(call.query), put)
        for key, obj in self.objects.items():
            if key[0] == made.kind:
                _tell(made, key, "ADDED", obj, None)
        meta = {"resourceVersion": str(self.version), "annotations": {"k8s.io/initial-events-end": "true"}}
        put(b'{"type": "BOOKMARK", "object": ' + json.dumps({"metadata": meta}).encode() + b"}\n")
        self._watches.append(made)
        return made

    def end(self, watch: Watch) -> None:
        """End a watch."""
        if watch in self._watches:
            self._watches.remove(watch)

    def _read(self, call: Call) -> Json:
        if call.name:
            return self._found(call.kind.plural, call.name, call.namespace)
        asked = call.query.get("resourceVersion", "0")
        if call.query.get("resourceVersionMatch") == "NotOlderThan" and int(asked) > self.version:
            raise Refusal(504, "Timeout", f"Too large resource version: {asked}, current: {self.version}",
                          "ResourceVersionTooLarge")
        selects = _selector(call.query)
        items = [obj for key, obj in self.objects.items()
                 if key[0] == call.kind.plural and call.namespace in ("", key[1]) and selects(obj)]
        return {"items": items, "metadata": {"resourceVersion": str(self.version)}}

    def _change(self, call: Call) -> Json:
        plural = call.kind.plural
        old = self._found(plural, call.name, call.namespace)
        _check(old, call.body)
        if call.method == "PUT":
            new = dict(call.body)
        elif "strategic" in call.content_type:
            new = patches.strategic(old, call.body)
        elif "apply" in call.content_type:
            new = patches.applied(old, call.body)
        else:
            new = patches.merged(old, call.body)
        if call.subresource == "status":
            new = {**old, "status": new.get("status") or {}}
        elif plural in _WITH_STATUS:
            new = patches.merged({**new, "status": None}, {"status": old.get("status")})
        kept = {key: old["metadata"][key] for key in ("uid", "creationTimestamp", "name", "resourceVersion")}
        return self._store(plural, {**new, "metadata": {**new["metadata"], **kept}}, old)

    def _found(self, plural: str, name: str, namespace: str) -> Json:
        try:
            return self.objects[plural, namespace or "", name]
        except KeyError:
            raise Refusal(404, "NotFound", f'{plural} "{name}" not found') from None

    def _store(self, plural: str, new: Json, old: Json | None) -> Json:
        if plural == "resourceclaims":
            new = patches.of_allocation(new)
        if old is not None and new == old:
            return old
        self.version += 1
        meta = {**new["metadata"], "resourceVersion": str(self.version)}
        if not meta.get("finalizers"):
            meta.pop("finalizers", None)
        new = {**new, "metadata": meta}
        key = (plural, meta.get("namespace") or "", meta["name"])
        gone = bool(meta.get("deletionTimestamp")) and not meta.get("finalizers") and plural != "pods"
        if gone:
            self.objects.pop(key, None)
        else:
            self.objects[key] = new
        self._tell(key, "DELETED" if gone else "MODIFIED" if old else "ADDED", new, old)
        return new

    def remove(self, plural: str, name: str, namespace: str = "") -> None:
        """Remove an object in spite of its finalizers, such as a pod that its kubelet has ended."""
        old = self._found(plural, name, namespace)
        del self.objects[plural, namespace, name]
        self.version += 1
        last = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.version)}}
        self._tell((plural, namespace, name), "DELETED", last, old)

    def _tell(self, key: Key, kind: str, obj: Json, old: Json | None) -> None:
        self._history.append((self.version, key, kind, obj, old, self.wall()))
        if len(self._history) > 2000:
            self.oldest = self._history.popleft()[0]
        for watch in self._watches:
            if watch.kind == key[0] and self.version > watch.since:
                _tell(watch, key, kind, obj, old)
        for listener in self.on_change:
            listener(key[0], kind, obj, old)


def parse(method: str, path: str, body: bytes | None, content_type: str) -> Call | None:
    """Return a request as the server sees it, None for a path that names no kind."""
    parts = urlsplit(path)
    pieces = [piece for piece in parts.path.split("/") if piece][2 if path.startswith("/api/") else 3:]
    namespace = ""
    if len(pieces) >= 3 and pieces[0] == "namespaces":
        namespace, pieces = pieces[1], pieces[2:]
    if not pieces or pieces[0] not in KINDS:
        return None
    name, subresource = (*pieces[1:], "", "")[:2]
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    return Call(method, KINDS[pieces[0]], namespace, name, subresource, query, json.loads(body or b"{}"), content_type)


def _tell(watch: Watch, key: Key, kind: str, obj: Json, old: Json | None) -> None:
    """Send an event to a watch. An object that is no longer selected is deleted for this watch."""
    was, selected = old is not None and watch.selects(old), watch.selects(obj)
    if not (was or selected):
        return
    shown = "DELETED" if kind == "DELETED" or not selected else kind if was else "ADDED"
    watch.put(b'{"type": "' + shown.encode() + b'", "object": ' + json.dumps(obj).encode() + b"}\n")


def _check(old: Json, body: Json) -> None:
    for key in ("uid", "resourceVersion"):
        wanted = (body.get("metadata") or {}).get(key)
        if wanted and wanted != old["metadata"].get(key):
            raise Refusal(409, "Conflict", f"{key} is not {wanted}")


def _selector(query: t.Mapping[str, str]) -> Callable[[Json], bool]:
    labels = [pair.split("=", 1) for pair in query.get("labelSelector", "").split(",") if pair]
    fields = [pair.split("=", 1) for pair in query.get("fieldSelector", "").split(",") if pair]

    def selects(obj: Json) -> bool:
        of_object = obj["metadata"].get("labels") or {}
        return (all(of_object.get(name) == value for name, value in labels)
                and all(_field(obj, name) == value for name, value in fields))

    return selects


def _field(obj: Json, path: str) -> str:
    value: t.Any = obj
    for name in path.split("."):
        value = (value or {}).get(name)
    return str(value or "")
