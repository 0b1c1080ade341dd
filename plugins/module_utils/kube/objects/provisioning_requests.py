# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write a ProvisioningRequest (``autoscaling.x-k8s.io/v1``) of this collection's class.

Kueue, or any other program, creates a ProvisioningRequest for pods that it will start. The fields
are those of ``cluster-autoscaler/apis/provisioningrequest`` of kubernetes/autoscaler.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...model.value import Json
from ..times import format_time, parse_time
from ..watch.parts import header, metadata, picked

CLASS: t.Final = "attach.composable.infra"
# Annotation of a pod: the name of the ProvisioningRequest in its namespace that it consumes.
CONSUMES: t.Final = "autoscaling.x-k8s.io/consume-provisioning-request"
ACCEPTED, PROVISIONED, FAILED = "Accepted", "Provisioned", "Failed"
EXPIRED, REVOKED = "BookingExpired", "CapacityRevoked"
# Parameter of the request: after so many seconds without devices it fails.
VALID_UNTIL: t.Final = "ValidUntilSeconds"
# Key in ``status.provisioningClassDetails`` of the nodes that were chosen, as JSON.
BOOKING: t.Final = "booking"
# ``Detail`` in types.go: longest text of a detail.
LONGEST_DETAIL: t.Final = 32768
# Begin of the UID of a pod that a request expects. No UID of the API server begins like this.
_EXPECTED: t.Final = "pr-"
_MESSAGE_LIMIT: t.Final = 1024


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal pods of a request: the name of their PodTemplate, and how many there are."""

    template: str
    count: int


@dataclass(frozen=True, slots=True)
class Seat:
    """The node that was chosen for one pod of a request.

    ``pod_set``, ``number``: which pod, both from 0. ``needs``: devices by claim entry of the
    PodTemplate and by model. The entry of extended resources is empty.
    """

    pod_set: int
    number: int
    node: str
    needs: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class ProvisioningRequest:
    """The fields of a ProvisioningRequest that are read. Times are epoch seconds.

    ``created``: its creation. ``valid_for``: seconds until it fails without devices, None for no
    limit. ``problem``: why it cannot be read, else empty. ``true``: the conditions that are True,
    each with the time of its last transition. ``seats``: the booking, empty before nodes were
    chosen.
    """

    namespace: str
    name: str
    uid: str
    pod_sets: tuple[PodSet, ...]
    created: float
    valid_for: float | None = None
    problem: str = ""
    true: Mapping[str, float] = field(default_factory=dict)
    seats: tuple[Seat, ...] = ()

    @property
    def over(self) -> bool:
        """Return whether nothing more is done for the request."""
        return any(name in self.true for name in (FAILED, EXPIRED, REVOKED))

    @property
    def provisioned(self) -> bool:
        """Return whether all devices of the request were reported as attached."""
        return PROVISIONED in self.true


def is_ours(raw: Json) -> bool:
    """Return whether the request has the class of this collection and is not being deleted."""
    return (raw["spec"].get("provisioningClassName") == CLASS
            and not raw["metadata"].get("deletionTimestamp"))


def read(raw: Json) -> ProvisioningRequest:
    """Return a raw request as a value. A field with an invalid value becomes its ``problem``."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    true = {str(each.get("type")): parse_time(each.get("lastTransitionTime"))
            for each in status.get("conditions") or () if each.get("status") == "True"}
    valid_for, problem = _valid_for(spec.get("parameters") or {})
    seats, unread = _seats((status.get("provisioningClassDetails") or {}).get(BOOKING) or "")
    pod_sets = tuple(PodSet(str(each["podTemplateRef"]["name"]), int(each["count"])) for each in spec["podSets"])
    return ProvisioningRequest(meta["namespace"], meta["name"], meta["uid"], pod_sets,
                               parse_time(meta.get("creationTimestamp")), valid_for, problem or unread, true, seats)


def _valid_for(parameters: Mapping[str, str]) -> tuple[float | None, str]:
    text = parameters.get(VALID_UNTIL)
    if text is None:
        return None, ""
    if text.isdecimal() and int(text) > 0:
        return float(text), ""
    return None, f"parameter {VALID_UNTIL} is {text!r}, it must be a whole number of seconds, 1 or more"


def _seats(text: str) -> tuple[tuple[Seat, ...], str]:
    """Return the booking. Only this collection writes it, so another form is a problem.
    """
    try:
        found = [Seat(int(each["podSet"]), int(number), str(each["node"]),
                      {str(entry): {str(model): int(n) for model, n in models.items()}
                       for entry, models in each["needs"].items()})
                 for each in (json.loads(text) if text else ()) for number in each["pods"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        return (), f"status.provisioningClassDetails.{BOOKING} is not the JSON that the controllers wrote"
    return tuple(found), ""


def booking_text(seats: tuple[Seat, ...]) -> str:
    """Return the JSON of a booking. Pods of one set on one node with equal needs share an entry."""
    entries: dict[str, Json] = {}
    for seat in sorted(seats, key=lambda each: (each.pod_set, each.number)):
        needs = {entry: dict(models) for entry, models in seat.needs.items()}
        key = json.dumps([seat.pod_set, seat.node, needs], sort_keys=True)
        entry = {"podSet": seat.pod_set, "node": seat.node, "needs": needs, "pods": []}
        entries.setdefault(key, entry)["pods"].append(seat.number)
    return json.dumps([*entries.values()], separators=(",", ":")) if entries else ""


def with_condition(raw: Json, name: str, status: bool, reason: str, message: str, now: float) -> Json | None:
    """Return the merge patch of the status that sets a condition, None if it is set already.

    The patch has the UID and the version of the object, so it changes no other version. ``now``:
    epoch seconds.
    """
    said, known = "True" if status else "False", (raw.get("status") or {}).get("conditions") or []
    message = message[:_MESSAGE_LIMIT]
    before: Json = next((each for each in known if each.get("type") == name), {})
    if (before.get("status"), before.get("reason"), before.get("message")) == (said, reason, message):
        return None
    changed = before.get("status") != said
    since = format_time(now) if changed or not before else str(before.get("lastTransitionTime"))
    made = {"type": name, "status": said, "reason": reason, "message": message, "lastTransitionTime": since}
    others = [each for each in known if each.get("type") != name]
    return {**_unchanged(raw), "status": {"conditions": [*others, made]}}


def with_booking(raw: Json, seats: tuple[Seat, ...]) -> Json | None:
    """Return the merge patch of the status with this booking, None if it is there already."""
    before = ((raw.get("status") or {}).get("provisioningClassDetails") or {}).get(BOOKING) or ""
    text = booking_text(seats)
    if text == before:
        return None
    return {**_unchanged(raw), "status": {"provisioningClassDetails": {BOOKING: text or None}}}


def _unchanged(raw: Json) -> Json:
    return {"metadata": picked(raw["metadata"], ("uid", "resourceVersion"))}


def consumed(pod: Mapping[str, t.Any]) -> tuple[str, str] | None:
    """Return (namespace, name) of the request that a raw pod consumes, None for no request."""
    meta = pod["metadata"]
    name = (meta.get("annotations") or {}).get(CONSUMES)
    return (str(meta["namespace"]), str(name)) if name else None


def pod_uid(request: str, pod_set: int, number: int) -> str:
    """Return the UID of a pod that a request (its UID) expects, which does not exist yet."""
    return f"{_EXPECTED}{request}-{pod_set}-{number}"


def claim_uid(namespace: str, pod: str, entry: str) -> str:
    """Return the key of a claim of such a pod (its UID). The entry of extended resources is empty.

    It has the form of ``PodRef.special_claim``, so that the namespace of a hold can be read from
    it.
    """
    return f"{namespace}/{pod}.{entry}" if entry else f"{namespace}/{pod}"


def is_expected(uid: str) -> bool:
    """Return whether a UID of a pod, or the key of a claim, belongs to a pod that a request
    expects.
    """
    return uid.rpartition("/")[2].startswith(_EXPECTED)


def trimmed(raw: Json) -> Json:
    """Return the part of a request that is kept. Objects of other classes keep only their class."""
    if raw["spec"].get("provisioningClassName") != CLASS:
        return {**header(raw), "metadata": metadata(raw), "spec": picked(raw["spec"], ("provisioningClassName",))}
    return {**header(raw), "metadata": metadata(raw), "spec": raw["spec"],
            "status": picked(raw.get("status") or {}, ("conditions", "provisioningClassDetails"))}
