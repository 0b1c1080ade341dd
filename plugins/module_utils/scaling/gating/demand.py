# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a gated pod asks of the fabric: its claims as counts of models, or the reason why that cannot be said."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .devices import Catalogue, Expressions, unreadable
from .judged import not_judged
from .view import GatedPod, GateSettings, GateView, Json

EXACT, SPARE = "ExactCount", 64
MOST_DEVICES = 32
"""Of a claim, as the API has it."""
MOST_WAYS = 1024
"""In which a pod's requests may be satisfied: more are not searched."""


class NotJudged(Exception):
    """The pod uses something that is not judged soundly here; says what."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to satisfy a request: ``count`` devices, each of one of ``models`` and satisfying ``expressions``.

    ``alike``: attributes that the device must share with others of its claim; only models that agree are listed.
    ``tolerations``: of device taints, as JSON that can be compared.
    """

    count: int
    models: tuple[str, ...]
    expressions: Expressions
    tolerations: tuple[tuple[tuple[str, str], ...], ...] = ()
    alike: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Want:
    """One request of a claim: alternatives in the order in which the scheduler tries them."""

    claim: int
    name: str
    alternatives: tuple[Alternative, ...]

    @property
    def choice(self) -> bool:
        """Whether it can be satisfied in more than one way."""
        return len(self.alternatives) > 1 or len(self.alternatives[0].models) > 1


@dataclass(frozen=True, slots=True)
class Demand:
    """All requests of a pod. ``claims`` are the uids that ``wants`` are of; ``kind``: equal for equal wants."""

    wants: tuple[Want, ...]
    claims: tuple[str, ...]
    kind: int

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that could serve some of it, sorted."""
        return tuple(sorted({m for w in self.wants for a in w.alternatives for m in a.models}))

    @property
    def count(self) -> int:
        """The largest number of devices that it may take."""
        return sum(max(a.count for a in w.alternatives) for w in self.wants)


class Reader:
    """Reads demands."""

    def __init__(self, catalogue: Catalogue, settings: GateSettings, classes: Mapping[str, Json]) -> None:
        self.catalogue, self.served, self.classes = catalogue, frozenset(settings.device_classes), classes
        self._known: dict[str, tuple[tuple[Json | None, ...], Demand | str]] = {}
        self._kinds: dict[tuple[Want, ...], int] = {}

    def reads(self, settings: GateSettings, view: GateView) -> bool:
        """Whether it would read the same for these settings and this view."""
        classes = view.classes
        same = self.classes.keys() == classes.keys() and all(self.classes[n] is c for n, c in classes.items())
        return (same and self.served == frozenset(settings.device_classes)
                and self.catalogue.knows(settings.models, view.samples, view.excluded))

    def forget(self, waiting: Iterable[str], devices: int) -> None:
        """Drop what was read of pods that wait no more and of devices that are gone, once that is the larger part."""
        live = set(waiting)
        if len(self._known) > 2 * len(live) + SPARE:
            self._known = {uid: found for uid, found in self._known.items() if uid in live}
        self.catalogue.forget(2 * devices + SPARE)

    def known(self, pod: GatedPod) -> Demand | str:
        """What the pod asks for, or why that is not judged; the same pod with the same claims is read once."""
        uid, read = pod.raw["metadata"]["uid"], (pod.raw, *pod.claims.values())
        found = self._known.get(uid)
        if found is None or len(found[0]) != len(read) or any(map(operator.is_not, found[0], read)):
            try:
                found = (read, not_judged(pod.raw, self.classes) or self.demand(pod))
            except NotJudged as error:
                found = (read, str(error))
            self._known[uid] = found
        return found[1]

    def demand(self, pod: GatedPod) -> Demand:
        """What the pod asks for; all its claims must exist. Raises NotJudged."""
        wants: list[Want] = []
        uids: list[str] = []
        for claim in pod.claims.values():
            if claim is None:
                raise NotJudged("one of its claims does not exist")
            if claim["metadata"]["uid"] in uids:
                continue
            uids.append(claim["metadata"]["uid"])
            wants += self._claim(claim, len(uids) - 1)
        if not wants:
            raise NotJudged("its claims ask for nothing")
        if math.prod(sum(len(a.models) + 1 for a in w.alternatives) for w in wants if w.choice) > MOST_WAYS:
            raise NotJudged("its claims can be satisfied in too many ways")
        return Demand(tuple(wants), tuple(uids), self._kinds.setdefault(tuple(wants), len(self._kinds)))

    def _claim(self, claim: Json, number: int) -> list[Want]:
        name, status = claim["metadata"]["name"], claim.get("status") or {}
        if claim["metadata"].get("deletionTimestamp"):
            raise NotJudged(f"claim {name} is being deleted")
        if status.get("allocation") or status.get("reservedFor"):
            raise NotJudged(f"claim {name} is allocated already")
        devices = claim["spec"].get("devices") or {}
        wants = [Want(number, r["name"], self._alternatives(r, name)) for r in devices.get("requests") or ()]
        if sum(max(a.count for a in w.alternatives) for w in wants) > MOST_DEVICES:
            raise NotJudged(f"claim {name} asks for more than {MOST_DEVICES} devices")
        for constraint in devices.get("constraints") or ():
            wants = self._constrained(wants, constraint, name, devices["requests"])
        return wants

    def _alternatives(self, request: Json, claim: str) -> tuple[Alternative, ...]:
        """Ways that can be judged, up to the first that cannot: later ones would depend on it."""
        listed = [request["exactly"]] if request.get("exactly") else request.get("firstAvailable") or []
        found: list[Alternative] = []
        for ask in listed:
            try:
                found += self._alternative(ask)
            except NotJudged as error:
                if not found:
                    raise NotJudged(f"claim {claim}, request {request['name']}: {error}") from None
                break
        if not found:
            raise NotJudged(f"claim {claim}, request {request['name']}: no model of device_info satisfies it")
        return tuple(found)

    def _alternative(self, ask: Json) -> list[Alternative]:
        """The alternative, none when no model can ever satisfy it."""
        self._refuse(ask)
        expressions = self._expressions(ask)
        answers = {m: self.catalogue.fits_model(m, expressions) for m in self.catalogue.usable}
        models = tuple(sorted(m for m, answer in answers.items() if answer))
        if not models and None in answers.values():
            raise NotJudged(f"it cannot be said which model satisfies {expressions[-1]!r}")
        tolerations = tuple(tuple(sorted((k, str(v)) for k, v in e.items())) for e in ask.get("tolerations") or ())
        return [Alternative(int(ask.get("count") or 1), models, expressions, tolerations)] if models else []

    def _refuse(self, ask: Json) -> None:
        if ask.get("adminAccess"):
            raise NotJudged("administrative access is not judged")
        if (ask.get("allocationMode") or EXACT) != EXACT:
            raise NotJudged(f"allocationMode {ask['allocationMode']} is not judged")
        if ask.get("capacity"):
            raise NotJudged("requests of capacity are not judged")
        if ask["deviceClassName"] not in self.served:
            raise NotJudged(f"the fabric does not serve DeviceClass {ask['deviceClassName']}")
        if ask["deviceClassName"] not in self.classes:
            raise NotJudged(f"there is no DeviceClass {ask['deviceClassName']}")

    def _expressions(self, ask: Json) -> Expressions:
        listed = (*((self.classes[ask["deviceClassName"]].get("spec") or {}).get("selectors") or ()),
                  *(ask.get("selectors") or ()))
        expressions = tuple((s.get("cel") or {}).get("expression") or "" for s in listed)
        if reason := unreadable(expressions):
            raise NotJudged(reason)
        return expressions

    def _constrained(self, wants: list[Want], constraint: Json, claim: str, requests: Iterable[Json]) -> list[Want]:
        attribute = constraint.get("matchAttribute")
        names = set(constraint.get("requests") or (r["name"] for r in requests))
        touched = [w for w in wants if names & {w.name}]
        plain = all("/" not in name for name in names)
        if not attribute or not plain or any(len(w.alternatives) > 1 for w in touched):
            raise NotJudged(f"claim {claim}: this constraint is not judged")
        values = {m: self.catalogue.facts(m).find("attributes", attribute)
                  for w in touched for m in w.alternatives[0].models}
        known = all(isinstance(v, (str, bool, int)) for v in values.values())
        if len({(v.__class__, v) for v in values.values()}) != 1 or not known:
            raise NotJudged(f"claim {claim}: it cannot be said which devices share {attribute}")
        return [_alike(w, attribute) if w in touched else w for w in wants]


def _alike(want: Want, attribute: str) -> Want:
    one = want.alternatives[0]
    changed = Alternative(one.count, one.models, one.expressions, one.tolerations, (*one.alike, attribute))
    return Want(want.claim, want.name, (changed,))


def tolerations_of(alternative: Alternative) -> tuple[dict[str, str], ...]:
    """Tolerations of device taints as the objects that they were."""
    return tuple(dict(each) for each in alternative.tolerations)
