# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may read /metrics and /status: whoever is on this machine's loopback, or has a token that the API server permits.

The token is looked at by a TokenReview, and its user by a SubjectAccessReview for ``get`` of the path, as Kubernetes'
own components do it. Answers are kept for a while, and nobody can have the API server asked without bound.
"""

from __future__ import annotations

import hashlib
import ipaddress
import threading
import time
import typing as t
from collections import OrderedDict
from collections.abc import Callable

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


def on_loopback(peer: str) -> bool:
    """Whether an address is of this machine's loopback: kubectl port-forward ends there, and needs a permission."""
    address = ipaddress.ip_address(peer.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


class Access:
    """Judges requests; without a ``client`` only loopback is let in. ``clock``: seconds. Thread-safe."""

    def __init__(self, client: Client | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._known: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()
        self._lock = threading.Lock()
        self._reviews = threading.BoundedSemaphore(AT_ONCE)

    def judge(self, peer: str, authorization: str, path: str) -> int:
        """The HTTP status for a request for ``path`` from address ``peer`` with this Authorization header: 200 for yes,
        else 401, 403, or 503 when nobody can say now."""
        if on_loopback(peer):
            return OK
        token = authorization[len(_SCHEME):].strip() if authorization.lower().startswith(_SCHEME) else ""
        if not token or len(token) > LONGEST_TOKEN or self._client is None:
            return UNAUTHORIZED
        key = (hashlib.sha256(token.encode()).hexdigest(), path)
        known = self._remembered(key)
        return known if known is not None else self._ask(self._client, key, token, path)

    def _remembered(self, key: tuple[str, str]) -> int | None:
        with self._lock:
            answer, until = self._known.get(key, (0, 0.0))
        return answer if until > self._clock() else None

    def _ask(self, client: Client, key: tuple[str, str], token: str, path: str) -> int:
        if not self._reviews.acquire(blocking=False):
            return UNAVAILABLE
        try:
            answer = _reviewed(client, token, path)
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


def _reviewed(client: Client, token: str, path: str) -> int:
    """Ask the API server. Raises ApiError."""
    reviewed = _created(client, "authentication.k8s.io/v1", "TokenReview", {"token": token})
    if not reviewed.get("authenticated"):
        return UNAUTHORIZED
    user = reviewed.get("user") or {}
    spec = {"user": user.get("username"), "uid": user.get("uid"), "groups": user.get("groups"),
            "extra": user.get("extra"), "nonResourceAttributes": {"path": path, "verb": "get"}}
    wanted = {name: value for name, value in spec.items() if value}
    permitted = _created(client, "authorization.k8s.io/v1", "SubjectAccessReview", wanted)
    return OK if permitted.get("allowed") and not permitted.get("denied") else FORBIDDEN


def _created(client: Client, group_version: str, kind: str, spec: dict[str, t.Any]) -> dict[str, t.Any]:
    """The status of a review."""
    body = {"apiVersion": group_version, "kind": kind, "spec": spec}
    status: dict[str, t.Any] = client.raw("POST", f"/apis/{group_version}/{kind.lower()}s", body).get("status") or {}
    return status
