# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serve ProvisioningRequests of the class ``attach.composable.infra``: attach the devices of all
their pods, or none, and keep them until the pods come.

The pods that a request expects are planned with the gated pods, as a group. Before a device is
requested, the chosen nodes are written to the status of the request, so that another process goes
on after a crash. Kueue creates such requests (``pkg/controller/admissionchecks/provisioning``), and
reads the conditions that are written here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from ...kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    NODES,
    PODS,
    PROVISIONING_REQUESTS,
    SLICES,
)
from ...kube.errors import Conflict, NotFound
from ...kube.objects import pods
from ...kube.objects import provisioning_requests as requests_of
from ...kube.objects.provisioning_requests import (
    ACCEPTED,
    EXPIRED,
    FAILED,
    PROVISIONED,
    REVOKED,
    ProvisioningRequest,
    Seat,
)
from ...kube.times import format_time
from ...model.pod import Pod
from ...model.value import Json
from ...planning.scheduling.snapshot import Placement
from ..bookings.bookings import BOOKED, DONE, WAITING, Booking
from ..bookings.expected_pods import ExpectedPod, NotSupported, expected_pods, group_key
from ..controller import Change, Controller
from ..gating.controller import GatingController
from ..gating.gate_opener import namespace_labels
from ..keys import ProvisioningKey, Result
from ..runtime.event_reporter import EventReporter
from ..runtime.metrics import Metrics
from ..state.cluster_state import ClusterState
from ..state.reservations import CHOSEN, OPEN, RESERVED, Reservation
from ..writers.writer import Writer
from .reserved_devices import lost

# Kinds of objects that say whether booked devices are still there.
_PLACES = (CLAIMS, COMPOSABLE_RESOURCES, NODES, SLICES)
# Seconds for which devices wait for pods. Source: kubernetes/autoscaler,
# provisioningrequest/checkcapacity/condition_change.go, ``defaultReservationTime``.
BOOKED_SECONDS = 600.0
# Seconds that a PodTemplate or ResourceClaimTemplate may come after its request.
TEMPLATE_SECONDS, TEMPLATE_RETRY = 30.0, 2.0
# Number of nodes that may fail a request before it fails.
MOST_FAILURES = 8


class ProvisioningController(Controller):
    """Controller of ProvisioningRequests. An engine has one. Does nothing unless ``enabled``."""

    kinds = frozenset({PROVISIONING_REQUESTS, PODS, *_PLACES})

    def __init__(self, state: ClusterState, writer: Writer, gating: GatingController, reporter: EventReporter,
                 metrics: Metrics, *, enabled: bool) -> None:
        self._state, self._client, self._gating, self._bookings = state, writer.client, gating, gating.bookings
        self._reporter, self._metrics, self.enabled = reporter, metrics, enabled
        self.reconcilers = {ProvisioningKey: self.reconcile}

    def all_keys(self) -> set[ProvisioningKey]:
        """Return the keys of all requests that are watched or booked."""
        if not self.enabled:
            return set()
        watched = {_key(raw) for raw in self._state.provisioning.list() if requests_of.is_ours(raw)}
        return watched | {*self._bookings.keys()}

    def concerned(self, change: Change) -> list[ProvisioningKey]:
        """Return the keys that a changed object concerns."""
        if not self.enabled:
            return []
        if change.resource == PROVISIONING_REQUESTS:
            return [_key(change.new)]
        if change.resource == PODS:
            request = change.new.consumes if isinstance(change.new, Pod) else None
            return [ProvisioningKey(*request)] if request else []
        return self._bookings.keys()

    def restore(self) -> None:
        """Reserve again what requests have booked, before any device may be returned.

        Raise ApiError. Call this before the first reconcile of a node.
        """
        for raw in self._state.provisioning.list() if self.enabled else ():
            request = requests_of.read(raw) if requests_of.is_ours(raw) else None
            if request and request.seats and not request.over and self._bookings.get(_key(raw)) is None:
                with contextlib.suppress(NotSupported, NotFound):
                    self._begin(_key(raw), request)

    def reconcile(self, key: ProvisioningKey) -> Result:
        """Bring one request a step further. Return when to call again. Raise ApiError."""
        raw = self._state.provisioning.get(key.name, key.namespace)
        if raw is None or not requests_of.is_ours(raw):
            self._drop(key)
            return Result()
        request, booking = requests_of.read(raw), self._bookings.get(key)
        if booking is not None and booking.uid != request.uid:
            self._drop(key)
            booking = None
        if request.over or (request.provisioned and not request.seats):
            self._drop(key)
            return Result()
        if request.problem:
            return self._end(key, raw, FAILED, "NotSupported", request.problem)
        if booking is None:
            return self._accept(key, raw, request)
        if booking.phase == WAITING:
            return self._wait(key, raw, request, booking)
        return self._follow(key, raw, request, booking)

    def _accept(self, key: ProvisioningKey, raw: Json, request: ProvisioningRequest) -> Result:
        if reason := self._not_gated(key.namespace):
            return self._end(key, raw, FAILED, "NamespaceNotGated", reason)
        try:
            self._begin(key, request)
        except NotSupported as error:
            return self._end(key, raw, FAILED, "NotSupported", str(error))
        except NotFound as error:
            if self._state.clock() >= request.created + TEMPLATE_SECONDS:
                return self._end(key, raw, FAILED, "TemplateMissing", str(error))
            return Result(self._state.clock() + TEMPLATE_RETRY)
        booking = self._bookings.get(key)
        raw = self._tell(raw, ACCEPTED, True, "Accepted", "devices are attached for all of its pods, or for none")
        if booking is None or not booking.pods:
            self._bookings.forget(key)
            self._tell(raw, PROVISIONED, True, "NoDevices", "its pods request no device of the fabric")
            return Result()
        self._bookings.plan_again()
        return Result(self._fails_at(request))

    def _not_gated(self, namespace: str) -> str:
        labels = namespace_labels(self._state).get(namespace, {})
        settings = self._state.settings
        opted = labels.get(pods.OPT) == "true" or settings.handover_namespaces.get(namespace) == "gated"
        if opted and settings.handover_of(namespace) == "gated":
            return ""
        return (f"devices are reserved only for pods of gated namespaces, and {namespace} is not gated. Give it the "
                f"label {pods.OPT}=true and the handover gated")

    def _begin(self, key: ProvisioningKey, request: ProvisioningRequest) -> None:
        """Read the pods of a request, and reserve what it has booked. Raise NotSupported,
        ApiError.
        """
        most, count = self._state.settings.max_group_size, sum(each.count for each in request.pod_sets)
        if count > most:
            raise NotSupported(f"the request has {count} pods, but max_group_size is {most}")
        expected = expected_pods(self._client, request, self._state.clock())
        phase = WAITING if not request.seats else DONE if request.provisioned else BOOKED
        of = {(each.pod_set, each.number): each for each in expected}
        placements = [_placement(of[seat.pod_set, seat.number], seat, request, self._state.clock())
                      for seat in request.seats if (seat.pod_set, seat.number) in of]
        self._state.reservations.add(placements, OPEN if phase == DONE else RESERVED)
        self._bookings.add(key, request.uid, expected, phase)
        self._gating.queue_nodes(placements)

    def _wait(self, key: ProvisioningKey, raw: Json, request: ProvisioningRequest, booking: Booking) -> Result:
        if booking.unsupported:
            return self._end(key, raw, FAILED, "NotSupported", booking.unsupported)
        if booking.failures >= MOST_FAILURES:
            why = f"the devices did not arrive on {booking.failures} nodes: {booking.reason}"
            return self._end(key, raw, FAILED, "DevicesDidNotCome", why)
        fails_at = self._fails_at(request)
        if fails_at is not None and self._state.clock() >= fails_at:
            why = f"no devices within {request.valid_for:g} s ({requests_of.VALID_UNTIL}): {booking.reason}"
            return self._end(key, raw, FAILED, "NotInTime", why)
        raw = self._book(raw, ())
        if booking.reason:
            self._tell(raw, PROVISIONED, False, "WaitingForDevices", booking.reason)
        return Result(fails_at)

    def _fails_at(self, request: ProvisioningRequest) -> float | None:
        return None if request.valid_for is None else request.created + request.valid_for

    def _follow(self, key: ProvisioningKey, raw: Json, request: ProvisioningRequest, booking: Booking) -> Result:
        """Write what was booked, request its devices, and report when they are attached."""
        found = self._reservations(booking)
        if not request.provisioned and len(found) < len(booking.pods):
            return self._plan_again(found, booking, "the chosen nodes could not be reserved")
        raw = self._book(raw, _seats(booking, found))
        if chosen := [each.placement for each in found if each.phase == CHOSEN]:
            self._state.reservations.reserve(chosen)
            self._gating.reserved(tuple(chosen))
        if not request.provisioned and any(each.phase != OPEN for each in found):
            nodes = ", ".join(sorted({each.placement.node for each in found}))
            self._tell(raw, PROVISIONED, False, "Attaching", f"devices are being attached to {nodes}")
            return Result()
        if not request.provisioned:
            return self._provisioned(key, raw, booking, found)
        return self._keep(key, raw, request, booking, found)

    def _provisioned(self, key: ProvisioningKey, raw: Json, booking: Booking, found: list[Reservation]) -> Result:
        if reason := next((why for each in found if (why := lost(self._state, each.placement))), ""):
            return self._plan_again(found, booking, reason)
        count = sum(n for each in found for models in each.placement.needs.values() for n in models.values())
        nodes = ", ".join(sorted({each.placement.node for each in found}))
        until = self._state.clock() + BOOKED_SECONDS
        self._tell(raw, PROVISIONED, True, "DevicesAttached",
                   f"{count} devices are attached to {nodes} and reserved for its pods until {format_time(until)}")
        self._bookings.set_phase(key, DONE)
        self._metrics.count("provisioning_requests_total", result="provisioned")
        self._bookings.plan_again()
        return Result(until)

    def _plan_again(self, found: list[Reservation], booking: Booking, reason: str) -> Result:
        self._release(found)
        self._bookings.given_up(next(iter(booking.pods.values())).pod.ref, reason)
        self._bookings.plan_again()
        return Result()

    def _keep(self, key: ProvisioningKey, raw: Json, request: ProvisioningRequest, booking: Booking,
              found: list[Reservation]) -> Result:
        """Keep devices for pods that have not come. The devices of the others are theirs."""
        if booking.phase != DONE:
            self._bookings.set_phase(key, DONE)
            self._bookings.plan_again()
        gone = [(each, why) for each in found if (why := lost(self._state, each.placement))]
        consumers = self._state.pods.count("consumes", (key.namespace, key.name))
        used = max(0, consumers - (len(booking.pods) - len(found)))
        if len(gone) > used:
            return self._end(key, raw, REVOKED, "DeviceLost", gone[used][1])
        self._release([each for each, _why in gone])
        left = self._reservations(booking)
        self._book(raw, _seats(booking, left))
        until = request.true[PROVISIONED] + BOOKED_SECONDS
        if left and self._state.clock() >= until:
            return self._end(key, raw, EXPIRED, "BookingExpired",
                             f"{len(left)} of its {len(booking.pods)} pods did not come within {BOOKED_SECONDS:g} s")
        if not left:
            self._drop(key)
        return Result(until if left else None)

    def _reservations(self, booking: Booking) -> list[Reservation]:
        return [each for uid in booking.pods if (each := self._state.reservations.get(uid))]

    def _end(self, key: ProvisioningKey, raw: Json, condition: str, reason: str, message: str) -> Result:
        """Write the last condition of a request, and give up all that it has booked."""
        self._tell(raw, condition, True, reason, message)
        self._metrics.count("provisioning_requests_total", result=_RESULTS[condition])
        self._drop(key)
        return Result()

    def _drop(self, key: ProvisioningKey) -> None:
        """Give up the devices that a request still keeps. Those of pods stay theirs."""
        booking = self._bookings.get(key)
        if booking is not None:
            self._bookings.forget(key)
            self._release(self._reservations(booking))
            self._bookings.plan_again()

    def _release(self, reservations: Iterable[Reservation]) -> None:
        for each in reservations:
            self._gating.ends.unreserve(each.placement.pod.uid)

    def _tell(self, raw: Json, condition: str, status: bool, reason: str, message: str) -> Json:
        """Write a condition if it has changed. Return the object as it is now."""
        patch = requests_of.with_condition(raw, condition, status, reason, message, self._state.clock())
        if patch is None:
            return raw
        new = self._patch(raw, patch)
        bad = condition in (FAILED, EXPIRED, REVOKED)
        self._reporter.about_object(new, reason, message, "Warning" if bad else "Normal")
        return new

    def _book(self, raw: Json, seats: tuple[Seat, ...]) -> Json:
        patch = requests_of.with_booking(raw, seats)
        return raw if patch is None else self._patch(raw, patch)

    def _patch(self, raw: Json, patch: Json) -> Json:
        """Patch the status. After a Conflict, read the object again, then raise."""
        name, namespace = raw["metadata"]["name"], raw["metadata"]["namespace"]
        try:
            new = self._client.merge_patch(PROVISIONING_REQUESTS, name, patch, namespace, "status")
        except Conflict:
            with contextlib.suppress(NotFound):
                self._state.provisioning.upsert(self._client.get(PROVISIONING_REQUESTS, name, namespace))
            raise
        self._state.provisioning.upsert(new)
        return new


_RESULTS = {FAILED: "failed", EXPIRED: "expired", REVOKED: "revoked"}


def _key(raw: Json) -> ProvisioningKey:
    return ProvisioningKey(raw["metadata"]["namespace"], raw["metadata"]["name"])


def _seats(booking: Booking, found: list[Reservation]) -> tuple[Seat, ...]:
    return tuple(_seat(booking.pods[each.placement.pod.uid], each.placement) for each in found)


def _seat(pod: ExpectedPod, placement: Placement) -> Seat:
    entry_of = {key: entry for entry, key in pod.entries.items()}
    needs = {entry_of[key]: models for key, models in placement.needs.items()}
    return Seat(pod.pod_set, pod.number, placement.node, needs)


def _placement(pod: ExpectedPod, seat: Seat, request: ProvisioningRequest, now: float) -> Placement:
    needs = {pod.entries[entry]: models for entry, models in seat.needs.items() if entry in pod.entries}
    return Placement(pod.pod.ref, seat.node, needs, now, pod.pod.raw, group=group_key(request.namespace, request.name),
                     reason="booked by an earlier process")
