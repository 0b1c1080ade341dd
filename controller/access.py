# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide who may read /metrics, /status and /ui.

A client on the loopback address may read them without a token. Any other client needs a token that
the API server permits. As in Kubernetes' own components, a TokenReview checks the token, and a
SubjectAccessReview checks the verb ``get`` of its user on the path. A user who may not see
everything may see a namespace if the user may ``list`` its ResourceClaims.

Answers are kept for a while, and the number of concurrent reviews is limited, so that clients
cannot overload the API server.
"""

from __future__ import annotations

import hashlib
import ipaddress
import threading
import time
import typing as t
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import urlsplit

from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError

OK, UNAUTHORIZED, FORBIDDEN, UNAVAILABLE = 200, 401, 403, 503
# Seconds for which an answer is kept.
PERMITTED_SECONDS, REFUSED_SECONDS = 60.0, 10.0
REMEMBERED = 256
# Reviews in flight at the same time. Further requests get the status 503.
AT_ONCE = 4
LONGEST_TOKEN = 16384
_SCHEME = "bearer "
# The permission that lets a user see a namespace.
LIST_CLAIMS = {"verb": "list", "group": "resource.k8s.io", "resource": "resourceclaims"}
_Question: t.TypeAlias = "tuple[str, str, str]"
"""Hash of the token, path, namespace."""


def on_loopback(peer: str) -> bool:
    """Return whether an address is a loopback address of this machine.

    ``kubectl port-forward`` connects from there, and needs a permission of its own.
    """
    if not peer:
        return False
    address = ipaddress.ip_address(peer.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def names_loopback(host: str) -> bool:
    """Return whether a Host header, with or without a port, names this machine's loopback."""
    name = urlsplit(f"//{host}").hostname or ""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Request(t.Protocol):
    """The parts of a request that ``Access`` reads.

    ``http.server.BaseHTTPRequestHandler`` has them.
    """

    headers: t.Any
    client_address: t.Any


class Access:
    """Judge requests. Thread-safe.

    Without a ``client``, only requests from loopback are allowed. ``clock``: returns seconds.
    """

    def __init__(self, client: Client | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._known: OrderedDict[_Question, tuple[int, float]] = OrderedDict()
        self._lock = threading.Lock()
        self._reviews = threading.BoundedSemaphore(AT_ONCE)

    def judge_request(self, request: Request, authorization: str, path: str, namespace: str = "") -> int:
        """Judge a request as ``judge`` does.

        A request from loopback needs no token only if its Host header names loopback too. Without
        this check, a foreign web page could reach this server under its own name (DNS rebinding).
        """
        peer = request.client_address[0]
        named = names_loopback(request.headers.get("Host") or "")
        return self.judge(peer if named or not on_loopback(peer) else "", authorization, path, namespace)

    def judge(self, peer: str, authorization: str, path: str, namespace: str = "") -> int:
        """Return the HTTP status for a request for ``path`` from the address ``peer``.

        The status is 200 if the request is allowed, else 401, 403, or 503 if no decision is
        possible now. ``authorization``: the Authorization header. ``namespace``: the namespace that
        the client wants to read, empty for all namespaces.
        """
        if on_loopback(peer):
            return OK
        token = authorization[len(_SCHEME):].strip() if authorization.lower().startswith(_SCHEME) else ""
        if not token or len(token) > LONGEST_TOKEN or self._client is None:
            return UNAUTHORIZED
        key = (hashlib.sha256(token.encode()).hexdigest(), path, namespace)
        known = self._remembered(key)
        return known if known is not None else self._ask(self._client, key, token)

    def _remembered(self, key: _Question) -> int | None:
        with self._lock:
            answer, until = self._known.get(key, (0, 0.0))
        return answer if until > self._clock() else None

    def _ask(self, client: Client, key: _Question, token: str) -> int:
        if not self._reviews.acquire(blocking=False):
            return UNAVAILABLE
        try:
            answer = _reviewed(client, token, *key[1:])
        except ApiError:
            return UNAVAILABLE
        finally:
            self._reviews.release()
        seconds = PERMITTED_SECONDS if answer == OK else REFUSED_SECONDS
        with self._lock:
            self._known[key] = (answer, self._clock() + seconds)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return answer


def _reviewed(client: Client, token: str, path: str, namespace: str) -> int:
    """Ask the API server about a token. Return an HTTP status. Raises ApiError."""
    reviewed = _created(client, "authentication.k8s.io/v1", "TokenReview", {"token": token})
    if not reviewed.get("authenticated"):
        return UNAUTHORIZED
    user, asked = reviewed.get("user") or {}, [{"nonResourceAttributes": {"path": path, "verb": "get"}}]
    if namespace:
        asked.append({"resourceAttributes": {"namespace": namespace, **LIST_CLAIMS}})
    return OK if any(_permitted(client, user, each) for each in asked) else FORBIDDEN


def _permitted(client: Client, user: dict[str, t.Any], asked: dict[str, t.Any]) -> bool:
    """Return whether a user has the permission ``asked``."""
    spec = {"user": user.get("username"), "uid": user.get("uid"), "groups": user.get("groups"),
            "extra": user.get("extra"), **asked}
    wanted = {name: value for name, value in spec.items() if value}
    permitted = _created(client, "authorization.k8s.io/v1", "SubjectAccessReview", wanted)
    return bool(permitted.get("allowed")) and not permitted.get("denied")


def _created(client: Client, group_version: str, kind: str, spec: dict[str, t.Any]) -> dict[str, t.Any]:
    """Create a review and return its status."""
    body = {"apiVersion": group_version, "kind": kind, "spec": spec}
    status: dict[str, t.Any] = client.raw("POST", f"/apis/{group_version}/{kind.lower()}s", body).get("status") or {}
    return status
