# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what claims did while no process ran, from the API server's memory of some minutes of changes.

A claim that is deallocated has no time of that change, not even in ``managedFields``, because the
manager of a removed field has no entry. But all changes have one order, that of their
resourceVersions (KEP-5504). So a release lies between the changes before and after it that have a
time. Those are renewals of the Leases in the controllers' namespace, such as those of the node
agents, and changes of other claims.
"""

from __future__ import annotations

import json
import typing as t
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

from ...kube.api_resources import CLAIMS, LEASES
from ...kube.client.verbs import Client
from ...kube.errors import ApiError
from ...kube.objects import claims
from ...kube.times import parse_time
from ...kube.watch.keys import version_number
from ...model.value import Json
from .moments import ALLOCATED, RELEASED, Moments
from .uses import Use

Held = dict[str, tuple["frozenset[claims.DeviceKey]", "Use | None"]]
"""The devices that claims have, and since when, by UID."""


class Clock:
    """Times of resourceVersions. ``since``, ``until``: (version, seconds since the epoch) at both ends."""

    def __init__(self, known: Iterable[tuple[int, float]], since: tuple[int, float], until: float) -> None:
        found = sorted({since, *((version, when) for version, when in known if version >= since[0] and when)})
        self._versions, self._until = [version for version, _when in found], until
        self._times: list[float] = []
        for _version, when in found:  # a clock of another host may be behind
            self._times.append(max(when, self._times[-1] if self._times else 0.0))

    def of(self, version: int) -> tuple[float, float]:
        """Return the middle of the possible times of a change, and by how much it may be wrong."""
        before, after = bisect_right(self._versions, version) - 1, bisect_left(self._versions, version)
        low = self._times[max(0, before)]
        high = max(low, self._times[after] if after < len(self._times) else self._until)
        return (low + high) / 2, (high - low) / 2


class Replay:
    """The uses since the stored sums that no process may have seen.

    ``complete``: the API server has returned all changes, so a claim without a release in them had
    ended before. ``spread``: by how many seconds the end of a claim (its UID) may be wrong.
    """

    def __init__(self) -> None:
        self.complete = False
        self.spread: dict[str, float] = {}
        self._uses: dict[claims.DeviceKey, list[Use]] = {}

    def of(self, keys: Iterable[claims.DeviceKey]) -> list[Use]:
        """Return the uses of a device and its parts that began and ended, oldest first."""
        return sorted((use for key in keys for use in self._uses.get(key, ())), key=lambda use: use.began)

    def read(self, client: Client, namespace: str, since: tuple[str, float], moments: Moments, now: float) -> None:
        """Read the changes, and note the times of claims.

        ``since``: resourceVersion and time of the stored sums. ``namespace``: that of the Leases. Never
        raise ApiError.
        """
        version, until = since
        try:
            with ThreadPoolExecutor(1) as other:  # each takes a second
                renewals = other.submit(_changes, client, LEASES.path(namespace=namespace), version)
                changes = _changes(client, CLAIMS.path(), version)
                leases = renewals.result()
        except (ApiError, KeyError, TypeError, ValueError):
            return
        known = [(_version(obj), parse_time((obj.get("spec") or {}).get("renewTime"))) for _kind, obj in leases]
        stamps = _stamps((claim for _kind, claim in changes), until)
        clock = Clock([*known, *stamps], (version_number(version), until), now)
        held: Held = {}
        for kind, claim in changes:
            self._take(kind, claim, clock.of(_version(claim)), held, moments)
        self.complete = True

    def _take(self, kind: str, claim: Json, time: tuple[float, float], held: Held, moments: Moments) -> None:
        """Note a change. The first change of a claim with devices may be of any kind, so its begin is
        that of its allocation."""
        meta, (when, spread) = claim["metadata"], time
        uid, devices = str(meta["uid"]), frozenset(claims.device_keys(claim) if kind != "DELETED" else ())
        before, use = held.get(uid, (None, None))
        if devices == before:
            return
        if before or (before is None and not devices and kind != "ADDED"):
            moments.note(RELEASED, uid, when)
            self.spread[uid] = spread
        if use is not None:
            for key in before or ():
                self._uses.setdefault(key, []).append(use.end(when))
        new = None
        if devices:
            began = when if before is not None else min(when, claims.allocated_at(claim) or when)
            names = (str(pod["name"]) for pod in claims.consumers(claim))
            new = Use(uid, meta["namespace"], meta["name"], moments.label(meta["namespace"], names), began)
            if before is not None:
                moments.note(ALLOCATED, uid, began)
        held[uid] = (devices, new)


def _stamps(changes: Iterable[Json], since: float) -> Iterator[tuple[int, float]]:
    """Yield version and time of each change of a claim that wrote a managed field. The time is the
    middle of the second that it says. A time before ``since`` is of an earlier change.
    """
    before: dict[str, float] = {}
    for claim in changes:
        meta = claim["metadata"]
        last = max((parse_time(each.get("time")) for each in meta.get("managedFields") or ()), default=0.0)
        if last > before.get(meta["uid"], since):
            before[meta["uid"]] = last
            yield _version(claim), last + 0.5


def _changes(client: Client, path: str, version: str) -> list[tuple[str, Json]]:
    """Return (kind, object) of all changes after a resourceVersion. Raise ApiError or ValueError."""
    query = urlencode({"watch": "1", "resourceVersion": version, "timeoutSeconds": "1"})
    events = [json.loads(line) for line in client.text(f"{path}?{query}").splitlines()]
    if any(event["type"] == "ERROR" for event in events):
        raise ValueError("the API server has forgotten some changes")
    return [(event["type"], event["object"]) for event in events if event["type"] != "BOOKMARK"]


def _version(obj: Mapping[str, t.Any]) -> int:
    return version_number(str(obj["metadata"]["resourceVersion"]))
