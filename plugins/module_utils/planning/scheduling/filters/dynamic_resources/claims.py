# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the ResourceClaims of a pod. As the PreFilter of kube-scheduler's
``framework/plugins/dynamicresources``.
"""

from __future__ import annotations

import itertools
import math

from ...demand import Demand, DeviceRequest
from ...snapshot import GatedPod, Json
from .constraints import apply_constraint
from .requests import RequestReader, Unsupported

MAX_DEVICES_PER_CLAIM = 32
"""``AllocationResultsMaxSize`` of the API."""
MAX_COMBINATIONS = 1024
"""Most ways to satisfy the requests of a pod that are searched."""
MAX_SELECTORS, MAX_SELECTOR_TEXT, MAX_PATTERNS = 64, 16384, 16
"""Most different selectors of a pod's claims, their total length, and the patterns in them."""
_SIGNATURES = itertools.count()


class ClaimReader:
    """Reads the claims of pods. Equal requests of different pods get the same signature."""

    def __init__(self, requests: RequestReader) -> None:
        self.requests = requests
        self._signatures: dict[tuple[DeviceRequest, ...], int] = {}

    def copy(self, requests: RequestReader) -> ClaimReader:
        """Return an independent copy with the same signatures.

        No two copies ever give one signature to different requests.
        """
        other = ClaimReader(requests)
        other._signatures = self._signatures.copy()
        return other

    def demand(self, pod: GatedPod, special: Json | None = None) -> Demand:
        """Return the demand of the pod. A claim that the pod names twice counts once.

        ``special``: the claim that kube-scheduler will make for its extended resources. Raise
        Unsupported.
        """
        _check_selectors(pod)
        requests: list[DeviceRequest] = []
        claims: list[str] = []
        for claim in (*pod.claims.values(), *([special] if special else ())):
            if claim is None:
                raise Unsupported("one of its claims does not exist")
            if claim["metadata"]["uid"] not in claims:
                claims.append(claim["metadata"]["uid"])
                requests += self._read(claim, len(claims) - 1)
        if not requests:
            raise Unsupported("its claims request no device")
        ways = math.prod(sum(len(a.models) + 1 for a in r.alternatives) for r in requests if r.ambiguous)
        if ways > MAX_COMBINATIONS:
            raise Unsupported(f"its claims can be satisfied in more than {MAX_COMBINATIONS} ways")
        key = tuple(requests)
        return Demand(key, tuple(claims), self._signatures.setdefault(key, next(_SIGNATURES)))

    def _read(self, claim: Json, number: int) -> list[DeviceRequest]:
        """Return the requests of the pod's claim ``number``, with the claim's constraints. Raise
        Unsupported.
        """
        name, status = claim["metadata"]["name"], claim.get("status") or {}
        if claim["metadata"].get("deletionTimestamp"):
            raise Unsupported(f"claim {name} is being deleted")
        if status.get("allocation") or status.get("reservedFor"):
            raise Unsupported(f"claim {name} is allocated already")
        devices = claim["spec"].get("devices") or {}
        requests = [self._request(raw, number, name) for raw in devices.get("requests") or ()]
        if sum(request.largest_count for request in requests) > MAX_DEVICES_PER_CLAIM:
            raise Unsupported(f"claim {name} requests more than {MAX_DEVICES_PER_CLAIM} devices")
        try:
            for n, constraint in enumerate(devices.get("constraints") or ()):
                requests = apply_constraint(requests, constraint, n, self.requests.catalogue)
        except Unsupported as error:
            raise Unsupported(f"claim {name}: {error}") from None
        return requests

    def _request(self, raw: Json, number: int, claim: str) -> DeviceRequest:
        """Read one request. Raise NoModel if no model can satisfy it, else Unsupported."""
        try:
            return DeviceRequest(number, raw["name"], self.requests.alternatives(raw))
        except Unsupported as error:
            raise type(error)(f"claim {claim}, request {raw['name']}: {error}") from None


def _check_selectors(pod: GatedPod) -> None:
    """Limit the selectors, because every tenant can write them and all pods wait for their
    evaluation.
    """
    found = {str((selector.get("cel") or {}).get("expression") or "") for claim in pod.claims.values() if claim
             for request in (claim["spec"].get("devices") or {}).get("requests") or ()
             for each in (request.get("exactly") or {}, *(request.get("firstAvailable") or ()))
             for selector in each.get("selectors") or ()}
    if len(found) > MAX_SELECTORS or sum(map(len, found)) > MAX_SELECTOR_TEXT:
        raise Unsupported(f"its claims have more than {MAX_SELECTORS} selectors, or more than {MAX_SELECTOR_TEXT} "
                          "characters in them")
    if sum(text.count("matches") for text in found) > MAX_PATTERNS:
        raise Unsupported(f"its claims use matches more than {MAX_PATTERNS} times")
