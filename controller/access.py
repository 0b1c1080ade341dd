# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may read /metrics, /status and /ui: whoever is on loopback, or has a token that the API server permits.

The token is looked at by a TokenReview, and its user by a SubjectAccessReview for ``get`` of the path, as Kubernetes'
own components do it. Who may not see everything may see a namespace: whoever may ``list`` the ResourceClaims there.
Answers are kept for a while, and nobody can have the API server asked without bound.
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
# Reviews under way at the same time; who comes then is told to come later.
AT_ONCE = 4
LONGEST_TOKEN = 16384
_SCHEME = "bearer "
# What shows that a namespace is somebody's.
LIST_CLAIMS = {"verb": "list", "group": "resource.k8s.io", "resource": "resourceclaims"}
_Question: t.TypeAlias = "tuple[str, str, str]"
"""Hash of the token, path, namespace."""


def on_loopback(peer: str) -> bool:
    """Whether an address is of this machine's loopback: kubectl port-forward ends there, and needs a permission."""
    if not peer:
        return False
    address = ipaddress.ip_address(peer.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def names_loopback(host: str) -> bool:
    """Whether a Host header, with or without a port, says that the client meant this machine's loopback."""
    name = urlsplit(f"//{host}").hostname or ""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Request(t.Protocol):
    """What is judged: http.server.BaseHTTPRequestHandler has it."""

    headers: t.Any
    client_address: t.Any


class Access:
    """Judges requests; without a ``client`` only loopback is let in. ``clock``: seconds. Thread-safe."""

    def __init__(self, client: Client | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._known: OrderedDict[_Question, tuple[int, float]] = OrderedDict()
        self._lock = threading.Lock()
        self._reviews = threading.BoundedSemaphore(AT_ONCE)

    def judge_request(self, request: Request, authorization: str, path: str, namespace: str = "") -> int:
        """As ``judge``. Loopback needs no token where the address that was asked for says so too: a page from elsewhere
        could have its own name lead here (DNS rebinding)."""
        peer = request.client_address[0]
        named = names_loopback(request.headers.get("Host") or "")
        return self.judge(peer if named or not on_loopback(peer) else "", authorization, path, namespace)

    def judge(self, peer: str, authorization: str, path: str, namespace: str = "") -> int:
        """The HTTP status for a request for ``path`` from address ``peer`` with this Authorization header: 200 for yes,
        else 401, 403, or 503 when nobody can say now. ``namespace``: for what the path shows of this one only."""
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
    """Ask the API server. Raises ApiError."""
    reviewed = _created(client, "authentication.k8s.io/v1", "TokenReview", {"token": token})
    if not reviewed.get("authenticated"):
        return UNAUTHORIZED
    user, asked = reviewed.get("user") or {}, [{"nonResourceAttributes": {"path": path, "verb": "get"}}]
    if namespace:
        asked.append({"resourceAttributes": {"namespace": namespace, **LIST_CLAIMS}})
    return OK if any(_permitted(client, user, each) for each in asked) else FORBIDDEN


def _permitted(client: Client, user: dict[str, t.Any], asked: dict[str, t.Any]) -> bool:
    """Whether a user may do what is asked."""
    spec = {"user": user.get("username"), "uid": user.get("uid"), "groups": user.get("groups"),
            "extra": user.get("extra"), **asked}
    wanted = {name: value for name, value in spec.items() if value}
    permitted = _created(client, "authorization.k8s.io/v1", "SubjectAccessReview", wanted)
    return bool(permitted.get("allowed")) and not permitted.get("denied")


def _created(client: Client, group_version: str, kind: str, spec: dict[str, t.Any]) -> dict[str, t.Any]:
    """The status of a review."""
    body = {"apiVersion": group_version, "kind": kind, "spec": spec}
    status: dict[str, t.Any] = client.raw("POST", f"/apis/{group_version}/{kind.lower()}s", body).get("status") or {}
    return status
