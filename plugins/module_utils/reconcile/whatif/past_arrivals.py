# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect the claims of the last days from the cluster. Each source knows only some of them.

- Existing claims, with their creation time.
- Timelines on ComposableResources: the last claims of each device, as long as it is attached.
- Counts of served claims by hour and namespace, without names. The controllers keep them for a day.
- Events of the kubelet that say when a pod was ended (``Killing``). The API server keeps them for
  an hour, unless ``--event-ttl`` says otherwise. Events of kube-scheduler do not say whether a pod
  wants a device, so they are not read.
"""

from __future__ import annotations

import contextlib
import typing as t
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...kube.api_resources import CONFIG_MAPS, EVENTS
from ...kube.client.verbs import Client
from ...kube.errors import ApiError, NotFound
from ...kube.objects import cohdi
from ...kube.times import parse_time
from ...model.value import Json
from ...planning.settings import Settings
from ..fabric_claims import concerns
from ..timelines.day_of_waits import Rows
from ..timelines.day_of_waits import of_text as waits_of_text
from ..timelines.histogram import TOTAL
from ..timelines.timeline import Timeline, of_resource
from ..timelines.waits_keeper import FIELD, NAME
from ..values.claim_values import read_claim

ENDED: t.Final = "involvedObject.kind=Pod,reason=Killing"
Served = Mapping[tuple[int, str], int]
"""Number of served claims, by hour since the epoch and namespace."""


@dataclass(frozen=True, slots=True)
class Came:
    """A past claim.

    ``at`` is its creation in seconds since the epoch. ``model`` is empty if unknown, and then
    ``devices`` is 0. ``lifetime`` is how many seconds its pod ran, or 0.0 if that is unknown or the
    pod still runs.
    """

    at: float
    namespace: str
    model: str = ""
    devices: int = 0
    lifetime: float = 0.0


@dataclass(frozen=True, slots=True)
class PastArrivals:
    """Past claims in their order (``came``), counts, and sentences on what could not be read
    (``notes``)."""

    came: tuple[Came, ...] = ()
    served: Served = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def as_document(self) -> Json:
        """Return plain data."""
        return {"came": [[each.at, each.namespace, each.model, each.devices, each.lifetime] for each in self.came],
                "served": [[hour, namespace, count] for (hour, namespace), count in sorted(self.served.items())],
                "notes": list(self.notes)}

    @classmethod
    def of_document(cls, data: Mapping[str, t.Any]) -> PastArrivals:
        """Return the value of plain data. Raise KeyError, TypeError or ValueError."""
        came = [Came(float(at), str(space), str(model), int(devices), float(lifetime))
                for at, space, model, devices, lifetime in data["came"]]
        return cls(tuple(came), {(int(hour), str(space)): int(count) for hour, space, count in data["served"]},
                   tuple(map(str, data["notes"])))


def read_past(client: Client, namespace: str, settings: Settings,
              objects: Mapping[str, Sequence[Json]]) -> PastArrivals:
    """Return the past claims. Raise nothing, but add a note for each source that cannot be read.

    ``namespace`` is that of the controllers. ``objects`` are those of a capture, by their plurals.
    """
    notes: list[str] = []
    ended = _asked("the ends of pods are unknown, because Events cannot be read", lambda: _ended(client), notes)
    waits = _asked("the served claims of the last day are unknown", lambda: _waits(client, namespace), notes)
    known = tuple(sorted(_came(settings, objects, ended or {}), key=lambda each: (each.at, each.namespace)))
    return PastArrivals(known, _served(waits or {}), tuple(notes))


T = t.TypeVar("T")


def _asked(without: str, ask: Callable[[], T], notes: list[str]) -> T | None:
    try:
        return ask()
    except (ApiError, ValueError) as error:
        notes.append(f"{without}: {error}")
        return None


def _ended(client: Client) -> dict[str, float]:
    """Return when pods were ended, by namespace/name. The last Event counts."""
    found: dict[str, float] = {}
    for raw in client.list(EVENTS, field_selector=ENDED, trim=_moment).items:
        if raw["at"] and raw["pod"]:
            found[raw["pod"]] = max(raw["at"], found.get(raw["pod"], 0.0))
    return found


def _moment(event: Json) -> Json:
    """Keep the pod and the time of an Event, but not its message. Newer Events have only
    ``eventTime``."""
    pod = event.get("involvedObject") or {}
    wanted = pod.get("kind") == "Pod" and event.get("reason") == "Killing"
    at = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    name = f"{pod.get('namespace')}/{pod.get('name')}" if wanted else ""
    return {"metadata": {"name": "", "uid": ""}, "pod": name, "at": parse_time(at)}


def _waits(client: Client, namespace: str) -> Rows:
    try:
        found = client.get(CONFIG_MAPS, NAME, namespace)
    except NotFound:
        return {}  # without this ConfigMap the controllers count nothing
    return waits_of_text(str((found.get("data") or {}).get(FIELD) or "")).table


def _served(waits: Rows) -> Served:
    return {(hour, namespace): row.counts.total() for (hour, namespace, step), row in waits.items() if step == TOTAL}


def _came(settings: Settings, objects: Mapping[str, Sequence[Json]], ended: Mapping[str, float]) -> Iterator[Came]:
    """Yield the claims of timelines, then existing claims without a timeline."""
    there = {raw["metadata"]["uid"]: raw for raw in objects.get("resourceclaims", ())}
    models: dict[str, Counter[str]] = {}
    timelines: dict[str, tuple[Timeline, float]] = {}
    for raw in objects.get("composableresources", ()):
        own = of_resource(raw)
        for place, each in enumerate(own, 1):
            models.setdefault(each.uid, Counter())[raw["spec"]["model"]] += 1
            last = _last_used(raw, settings) if place == len(own) and each.uid not in there else 0.0
            timelines[each.uid] = (each, max(last, timelines.get(each.uid, (each, 0.0))[1]))
    for uid, (timeline, last) in timelines.items():
        ((model, devices),) = models[uid].most_common(1)
        end = _end_of(timeline.claim, ended) or last
        yield Came(timeline.created, timeline.claim.partition("/")[0], model, devices,
                   round(max(0.0, end - timeline.ended), 3) if end else 0.0)
    for uid, raw in there.items():
        if uid not in timelines and _is_ours(raw, settings):
            yield Came(parse_time(raw["metadata"].get("creationTimestamp")), raw["metadata"]["namespace"])


def _is_ours(raw: Json, settings: Settings) -> bool:
    """Return whether the fabric serves a claim. A claim that cannot be read does not count."""
    with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
        return concerns(read_claim(raw), settings)
    return False


def _last_used(raw: Json, settings: Settings) -> float:
    """Return when an unused device was last used, or 0.0 if it is in use or the time is not
    recorded."""
    if cohdi.annotation(raw, cohdi.IN_USE):
        return 0.0
    return parse_time(cohdi.annotation(raw, settings.label(cohdi.LAST_USED)))


def _end_of(claim: str, ended: Mapping[str, float]) -> float:
    """Return when a claim's pod was ended, or 0.0.

    The name of a claim from a template begins with the pod's name, then the entry and some letters.
    """
    return next((ended[name] for name in _prefixes(claim) if name in ended), 0.0)


def _prefixes(claim: str) -> Iterable[str]:
    words = claim.split("-")
    return ("-".join(words[:count]) for count in range(len(words), 0, -1))
