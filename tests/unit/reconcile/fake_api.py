# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server in a dictionary: the verbs that the engine uses, preconditions, finalizers, and errors on demand."""

from __future__ import annotations

import copy
import queue
import threading
import time
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import ApiResource
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client, ObjectList
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    from_response,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time

Json = dict[str, t.Any]
READS = ("dry_run", "get", "list", "raw", "warm", "watch")


@dataclass(frozen=True)
class Call:
    """One call as it came in."""

    verb: str
    plural: str
    name: str
    body: t.Any = None
    subresource: str | None = None


@dataclass
class _Fault:
    verb: str
    plural: str
    name: str | None
    error: BaseException
    left: float


class FakeStream:
    """An open watch."""

    def __init__(self, plural: str) -> None:
        self.plural = plural
        self.events: queue.SimpleQueue[Json | None] = queue.SimpleQueue()

    def open(self) -> None:
        """It is open from the start."""

    def __iter__(self) -> Iterator[Json]:
        while (event := self.events.get()) is not None:
            yield event

    def close(self) -> None:
        """End it, from any thread."""
        self.events.put(None)


@dataclass
class FakeApi:
    """Objects by (plural, namespace, name). Thread-safe; what is handed out is a copy.

    ``dropped``: fields of ResourceSlices' devices that it does not keep, as when a feature gate is off. ``pruned``:
    fields of a status that it does not keep, since a CRD does not know them.
    """

    objects: dict[tuple[str, str, str], Json] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    paths: dict[str, Json | BaseException] = field(default_factory=dict)
    before: t.Callable[[Call], None] | None = None
    after: t.Callable[[ApiResource, Json], None] | None = None
    dropped: tuple[str, ...] = ()
    pruned: tuple[str, ...] = ()
    clock_ahead: float = 0.0
    _faults: list[_Fault] = field(default_factory=list)
    _streams: list[FakeStream] = field(default_factory=list)
    _version: int = 100
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def client(self) -> Client:
        """This, for those who take a Client."""
        return t.cast(Client, self)

    def guarded(self, check: t.Callable[[], None]) -> Client:
        """This, with a check before each call that changes something."""
        return t.cast(Client, _Guarded(self, check))

    def put(self, resource: ApiResource, obj: Json) -> Json:
        """Have an object as it is, at a new resourceVersion."""
        with self._lock:
            self._version += 1
            obj = copy.deepcopy(obj)
            obj["metadata"]["resourceVersion"] = str(self._version)
            self.objects[resource.plural, obj["metadata"].get("namespace") or "", obj["metadata"]["name"]] = obj
            self._tell(resource.plural, "MODIFIED", obj)
            return copy.deepcopy(obj)

    def remove(self, resource: ApiResource, name: str, namespace: str = "") -> None:
        """Have an object gone, whatever its finalizers say."""
        with self._lock:
            obj = self.put(resource, self.objects[resource.plural, namespace, name])
            del self.objects[resource.plural, namespace, name]
            self._tell(resource.plural, "DELETED", obj)

    def _tell(self, plural: str, kind: str, obj: Json) -> None:
        for stream in self._streams:
            if stream.plural == plural:
                stream.events.put({"type": kind, "object": copy.deepcopy(obj)})

    def fail(self, verb: str, resource: ApiResource, error: BaseException, *, name: str | None = None,
             times: float = float("inf")) -> None:
        """Have calls of a verb raise, so many times."""
        self._faults.append(_Fault(verb, resource.plural, name, error, times))

    def heal(self) -> None:
        """No more errors on demand."""
        self._faults.clear()

    def of(self, resource: ApiResource) -> list[Json]:
        """All objects of a kind."""
        with self._lock:
            return [copy.deepcopy(o) for k, o in self.objects.items() if k[0] == resource.plural]

    def one(self, resource: ApiResource, name: str, namespace: str = "") -> Json:
        """An object that must be there."""
        with self._lock:
            return copy.deepcopy(self.objects[resource.plural, namespace, name])

    def text(self, path: str) -> str:
        """It remembers no changes, as after a long time."""
        raise Gone(410, "Expired", f"{path}: too old resource version")

    def writes(self, resource: ApiResource | None = None) -> list[Call]:
        """Calls that change something, in order."""
        return [c for c in self.calls if c.verb not in READS and resource in (None, *_same(resource, c))]

    def _called(self, verb: str, plural: str, name: str, body: t.Any = None, subresource: str | None = None) -> None:
        call = Call(verb, plural, name, copy.deepcopy(body), subresource)
        asked = "create" if verb == "dry_run" else verb
        with self._lock:
            self.calls.append(call)
            fault = next((f for f in self._faults if (f.verb, f.plural) == (asked, plural) and f.left > 0
                          and f.name in (None, name)), None)
            if fault:
                fault.left -= 1
        if self.before:
            self.before(call)
        if fault:
            raise fault.error

    def _found(self, res: ApiResource, name: str, namespace: str | None) -> Json:
        try:
            return self.objects[res.plural, namespace or "", name]
        except KeyError:
            raise NotFound(404, "NotFound", f'{res.plural} "{name}" not found') from None

    def get(self, res: ApiResource, name: str, namespace: str | None = None, subresource: str | None = None) -> Json:
        found = self.get_whole(res, name, namespace)
        found["metadata"].pop("managedFields", None)  # as the client does
        return found

    def get_whole(self, res: ApiResource, name: str, namespace: str | None = None) -> Json:
        """One object with ``metadata.managedFields``."""
        self._called("get", res.plural, name)
        with self._lock:
            return copy.deepcopy(self._found(res, name, namespace))

    def list(self, res: ApiResource, namespace: str | None = None, *_unused: t.Any,
             trim: t.Callable[[Json], Json] | None = None, **__: t.Any) -> ObjectList:
        """All of a kind, or those of one namespace; selectors are not looked at."""
        self._called("list", res.plural, "")
        with self._lock:
            found = [o for o in self.of(res) if namespace in (None, o["metadata"].get("namespace"))]
            return ObjectList([trim(o) for o in found] if trim else found, str(self._version))

    def server_time(self) -> float:
        """By the API server's clock."""
        return time.time() - self.clock_ahead

    def is_behind(self, res: ApiResource, resource_version: str, *_unused: t.Any) -> bool:
        """Whether a version is of the future."""
        return int(resource_version) > self._version

    def watch(self, res: ApiResource, resource_version: str, *_unused: t.Any, initial: bool = False,
              **__: t.Any) -> FakeStream:
        """What changed after a version, then what changes. It serves no streamed lists, as without WatchList."""
        if initial:
            raise Invalid(422, "Invalid", "sendInitialEvents is forbidden for watch")
        with self._lock:
            stream = FakeStream(res.plural)
            for obj in self.of(res):
                if int(obj["metadata"]["resourceVersion"]) > int(resource_version):
                    stream.events.put({"type": "MODIFIED", "object": obj})
            self._streams.append(stream)
            return stream

    def create(self, res: ApiResource, body: Json, namespace: str | None = None, dry_run: bool = False) -> Json:
        meta = body["metadata"]
        name = meta.get("name") or f"{meta['generateName']}{self._version}"
        self._called("dry_run" if dry_run else "create", res.plural, name, body)
        if res.plural == "resourceslices":
            kept = [{k: v for k, v in d.items() if k not in self.dropped} for d in body["spec"]["devices"]]
            body = {**body, "spec": {**body["spec"], "devices": kept}}
        with self._lock:
            if (res.plural, namespace or "", name) in self.objects:
                raise AlreadyExists(409, "AlreadyExists", f'{res.plural} "{name}" already exists')
            new = {"uid": f"uid-{name}", "name": name, "creationTimestamp": format_time(time.time())}
            if dry_run:
                return {**body, "metadata": {**meta, **new}}
            return self._stored(res, {**body, "metadata": {**meta, **new}})

    def merge_patch(self, res: ApiResource, name: str, body: Json, namespace: str | None = None,
                    subresource: str | None = None) -> Json:
        self._called("merge_patch", res.plural, name, body, subresource)
        with self._lock:
            old = self._found(res, name, namespace)
            _check(old, body)
            if subresource:
                body = {subresource: body[subresource]}
            elif "status" in body and res.plural.startswith("compos"):
                body = {k: v for k, v in body.items() if k != "status"}
            return self._stored(res, _merged(old, body))

    def strategic_patch(self, res: ApiResource, name: str, body: Json, namespace: str | None = None,
                        subresource: str | None = None) -> Json:
        """Only what removes scheduling gates, what adds finalizers, and what sets conditions of the status."""
        self._called("strategic_patch", res.plural, name, body, subresource)
        if subresource == "status":
            with self._lock:
                old = self._found(res, name, namespace)
                _check(old, body)
                told = [*(old.get("status") or {}).get("conditions", ()), *body["status"]["conditions"]]
                by_type = {each["type"]: each for each in told}
                return self._stored(res, _merged(old, {"status": {"conditions": [*by_type.values()]}}))
        gone = {g["name"] for g in body.get("spec", {}).get("schedulingGates", ()) if g["$patch"] == "delete"}
        added = body["metadata"].get("finalizers", [])
        with self._lock:
            old = self._found(res, name, namespace)
            _check(old, body)
            left = [g for g in old["spec"].get("schedulingGates") or [] if g["name"] not in gone]
            had = old["metadata"].get("finalizers") or []
            kept = [*had, *(f for f in added if f not in had)]
            return self._stored(res, _merged(old, {"spec": {"schedulingGates": left or None},
                                                   "metadata": {"finalizers": kept or None}}))

    def apply(self, res: ApiResource, name: str, body: Json, namespace: str | None = None,
              subresource: str | None = None, *, field_manager: str, force: bool = True) -> Json:
        self._called("apply", res.plural, name, body, subresource)
        with self._lock:
            old = self._found(res, name, namespace)
            _check(old, body)
            return self._stored(res, _merged(old, {"status": body["status"]}))

    def replace(self, res: ApiResource, name: str, body: Json, namespace: str | None = None,
                subresource: str | None = None) -> Json:
        self._called("replace", res.plural, name, body)
        with self._lock:
            _check(self._found(res, name, namespace), body)
            return self._stored(res, body)

    def delete(self, res: ApiResource, name: str, namespace: str | None = None,
               precondition_uid: str | None = None) -> Json | None:
        self._called("delete", res.plural, name)
        with self._lock:
            old = self._found(res, name, namespace)
            new = self._stored(res, _merged(old, {"metadata": {"deletionTimestamp": "2026-01-01T01:00:00Z"}}))
            return new if new["metadata"].get("finalizers") else None

    def close(self) -> None:
        """Nothing to close."""

    def warm(self, count: int) -> None:
        self._called("warm", "", str(count))

    def raw(self, method: str, path: str, body: t.Any = None, **_unused: t.Any) -> Json:
        self._called("raw", path, "", body)
        answer = self.paths.get(path, {})
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _stored(self, res: ApiResource, obj: Json) -> Json:
        if self.pruned and obj.get("status"):
            obj = {**obj, "status": {k: v for k, v in obj["status"].items() if k not in self.pruned}}
        new = self.put(res, obj)
        meta = new["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self.remove(res, meta["name"], meta.get("namespace") or "")
        if self.after:
            self.after(res, new)
        return new


class _Guarded:
    """What ``Client.guarded`` gives."""

    def __init__(self, api: FakeApi, check: t.Callable[[], None]) -> None:
        self._api, self._check = api, check

    def __getattr__(self, name: str) -> t.Any:
        if name not in READS:
            self._check()
        return getattr(self._api, name)


def _same(resource: ApiResource | None, call: Call) -> list[ApiResource]:
    return [resource] if resource is not None and resource.plural == call.plural else []


def _check(old: Json, body: Json) -> None:
    for key in ("uid", "resourceVersion"):
        wanted = body.get("metadata", {}).get(key)
        if wanted and wanted != old["metadata"].get(key):
            raise Conflict(409, "Conflict", f"{key} is not {wanted}")


def _merged(old: t.Any, patch: t.Any) -> t.Any:
    """JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    new = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = _merged(new.get(key), value)
    return new


def answered_by_a_proxy() -> ApiError:
    """The 404 of a load balancer, which knows nothing about any object."""
    return from_response(404, b"<html>404 Not Found</html>", "GET /x")


def unreachable() -> ApiError:
    """What a client raises while the API server does not answer."""
    return ApiError(503, "ServiceUnavailable", "the API server does not answer")
