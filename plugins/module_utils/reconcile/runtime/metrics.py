# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of all metrics of an engine, and the interface that receives measurements.

A stock execution environment has no metrics library, so the engine knows only this interface. The
controller has an implementation. A module measures nothing.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...planning.device_info import HANDOVERS

PREFIX: t.Final = "composable_"
# Upper bounds in seconds, for durations of a CDI Manager and of the engine itself.
MANAGER_BUCKETS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0)
STEP_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 180.0, 600.0)
ENGINE_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """Help text, and the allowed values of each label by its name, so that the number of series is
    bounded.

    A label that is CONFIGURED takes its values from the configuration. ``buckets`` are upper bounds
    of a histogram in seconds. ``replaces`` is the former name of a histogram. It was a summary if
    the histogram has no labels, otherwise a histogram with labels of FORMER_LABELS.
    """

    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    buckets: tuple[float, ...] = ()
    replaces: str = ""


# Former name of a label in a metric with a former name.
FORMER_LABELS: t.Final[Mapping[str, str]] = {"step": "hop"}
# Label values from the configuration: the manager, and the models of device_info.
CONFIGURED: t.Final = ()
CONTROLLERS = {"controller": ("node", "node-records", "pool", "request", "gates", "nominations", "minimums",
                              "provisioning")}
# The first value of each label stands for success.
REASONS_ATTACH = ("none", "exhausted", "refused", "missing", "busy", "unavailable", "unauthorized", "uncertain",
                  "withdrawn", "unexpected")
REASONS_DETACH = ("none", "claimed", "node_holds", "slice_shows", "node_is_back", "not_leading", *REASONS_ATTACH[2:])
WATCHES = {"resource": ("resourceclaims", "resourceslices", "nodes", "pods", "namespaces", "deviceclasses", "leases",
                        "composabilityrequests", "composableresources", "provisioningrequests")}
# Steps of a claim's timeline in their order, each with the events at its begin and its end.
STEPS: t.Final[Mapping[str, tuple[str, str]]] = {
    "plan": ("a controller sees the gated pod", "its node is chosen"),
    "request": ("the node is chosen, or a pool device is allocated", "the request is sent to the CDI Manager"),
    "attach": ("the request is sent", "the CDI Manager has attached the device"),
    "slice": ("the device is attached", "the node is ready and its ResourceSlice shows the device"),
    "gate": ("the ResourceSlice shows the device", "the scheduling gate is removed"),
    "bind": ("the gate is removed, or FabricDeviceReady is set", "kube-scheduler has bound the pod"),
    "handover": ("FabricDeviceReschedule is set", "the claim has the node's own device"),
}
# Handover of the step's claim. ``none`` means that no claim is known yet, as with ``prewarm``.
OF_NO_CLAIM: t.Final = "none"
COUNTERS: t.Final[Mapping[str, Metric]] = {
    "gate_opened_total": Metric("Pods that lost their scheduling gate because their devices are on the node."),
    "gate_released_total": Metric("Pods that lost their scheduling gate without devices.",
                                  {"reason": ("unserved", "not_judged")}),
    "gate_misjudged_total": Metric("Pods that kube-scheduler did not place on the node with their devices.",
                                   {"reason": ("elsewhere", "unschedulable")}),
    "provisioning_requests_total": Metric("ProvisioningRequests of this collection's class, by result.",
                                          {"result": ("provisioned", "failed", "expired", "revoked")}),
    "attaches_total": Metric("Requests to the CDI Manager for a device, by outcome.",
                             {"manager": CONFIGURED, "model": CONFIGURED, "outcome": ("succeeded", "failed"),
                              "reason": REASONS_ATTACH}),
    "detaches_total": Metric("Detaches of a device, by outcome. Refused detaches send no request to the CDI Manager.",
                             {"manager": CONFIGURED, "model": CONFIGURED, "outcome": ("succeeded", "failed", "refused"),
                              "reason": REASONS_DETACH}),
}
HISTOGRAMS: t.Final[Mapping[str, Metric]] = {
    "attach_duration_seconds": Metric("Time from the request to the CDI Manager's reply, for each attached device.",
                                      buckets=MANAGER_BUCKETS, replaces="attach_seconds"),
    "detach_duration_seconds": Metric("Time from the request to the CDI Manager's reply, for each detached device.",
                                      buckets=MANAGER_BUCKETS, replaces="detach_seconds"),
    "queue_duration_seconds": Metric("Time that a key of the work queue is ready before a worker takes it.",
                                     CONTROLLERS, ENGINE_BUCKETS),
    "reconcile_duration_seconds": Metric("Time that a worker takes for a key of the work queue.",
                                         CONTROLLERS, ENGINE_BUCKETS),
    "gate_pass_duration_seconds": Metric("Time of one plan of all gated pods.", buckets=ENGINE_BUCKETS),
    "step_duration_seconds": Metric("Time of each step on a claim's way to its device.",
                                    {"step": tuple(STEPS), "handover": (*HANDOVERS, OF_NO_CLAIM)}, STEP_BUCKETS,
                                    replaces="hop_duration_seconds"),
}
# Values at the time of the scrape, see runtime/observed.py.
GAUGES: t.Final[Mapping[str, Metric]] = {
    "gated_pods": Metric("Gated pods."),
    "claims_waiting": Metric("ResourceClaims and ProvisioningRequests that wait for devices."),
    "leader": Metric("1 if this process leads as the component, otherwise 0.",
                     {"component": ("publisher", "scaler", "operator")}),
    "queue_depth": Metric("Keys of the work queue that are ready and wait for a worker.", CONTROLLERS),
    "fabric_up": Metric("1 if the last poll of the CDI Manager found no problem, otherwise 0. NaN without polls in "
                        "this process."),
    "fabric_poll_age_seconds": Metric("Seconds since the last successful poll of the CDI Manager. NaN without polls in "
                                      "this process."),
    "fabric_free_devices": Metric("Devices that the CDI Manager counts as free.", {"model": CONFIGURED}),
    "pool_devices": Metric("Devices that the published ResourceSlices of the pools show.", {"model": CONFIGURED}),
    "pools_refused": Metric("Models without published pools, because a DeviceClass would fail on them."),
    "attached_devices": Metric("ComposableResources that have a device.", {"model": CONFIGURED}),
    "prewarm_devices": Metric("Minimum of idle devices by prewarm at this time of the week.",
                              {"model": CONFIGURED}),
    "prewarm_device_hours_per_week": Metric("Device-hours of a week in which devices of prewarm are idle, at most.",
                                            {"model": CONFIGURED}),
    "orphans": Metric("Devices on a node's machine without a ComposableResource, and ComposableResources without a "
                      "node.", {"kind": ("device", "resource")}),
}
# Counters that are read at the time of the scrape.
READ_COUNTERS: t.Final[Mapping[str, Metric]] = {
    "watch_restarts_total": Metric("Watches that failed and were restarted.", WATCHES),
    "trace_spans_dropped_total": Metric("Spans of traces that could not be sent to the collector."),
}


class Metrics(t.Protocol):
    """Takes measurements from any thread. A label value that is not in the tables becomes
    ``other``."""

    def count(self, name: str, **labels: str) -> None:
        """Increment the counter ``name``, a key of COUNTERS."""

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Add a measurement to the histogram ``name``, a key of HISTOGRAMS."""


class NoMetrics:
    """Ignores all measurements."""

    def count(self, name: str, **labels: str) -> None:
        """Do nothing."""

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Do nothing."""
