# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the cluster itself must offer: version, served APIs, feature gates."""

from __future__ import annotations

from collections.abc import Iterator

from ...module_utils.planning.device_info import DIRECT, RESCHEDULE
from .class_rules import direct_models
from .findings import Case, Finding, ok, stop, warn
from .matrix import at_least, series

CLAIMS = "resource.k8s.io/v1/resourceclaims"
TAINT_RULES = "resource.k8s.io/v1alpha3/devicetaintrules"
BINDING = "DRADeviceBindingConditions"


def kubernetes_version(case: Case) -> Iterator[Finding]:
    """The API server is new enough, and one that was tried."""
    have, wanted = str(case.cluster.get("kubernetes", "")), case.matrix["kubernetes"]
    found = f"Kubernetes is {have.removeprefix('v') or 'of an unknown version'}"
    if not at_least(have, wanted["minimum"]):
        yield stop("kubernetes version", found, f"Upgrade the cluster to {wanted['minimum']} or later")
    elif series(have) not in wanted["known"]:
        yield warn("kubernetes version", found, f"Expect surprises: the matrix knows {', '.join(wanted['known'])}")
    else:
        yield ok("kubernetes version", found)


def claims_served(case: Case) -> Iterator[Finding]:
    """ResourceClaims are served in v1."""
    served = CLAIMS in case.listed("served")
    if served:
        yield ok("dynamic resource allocation", "resource.k8s.io/v1 is served")
    elif at_least(case.cluster.get("kubernetes"), case.matrix["kubernetes"]["minimum"]):
        yield stop(
            "dynamic resource allocation",
            "resource.k8s.io/v1 is not served",
            "Remove resource.k8s.io/v1=false from --runtime-config of the API server",
        )


def binding_conditions(case: Case) -> Iterator[Finding]:
    """The handovers by the scheduler's waiting need a feature gate; the gated one does not."""
    handover = str(case.plan.get("handover")) if case.wants("handover", DIRECT, RESCHEDULE) else ""
    if not (handover := handover or (DIRECT if direct_models(case) else "")):
        return
    on, why = gate(case, BINDING)
    if on:
        yield ok("binding conditions", f"the gate {BINDING} is on")
        return
    yield stop(
        "binding conditions",
        f"the gate {BINDING} is off ({why}) and the handover is {handover}",
        f"Set --feature-gates={BINDING}=true on kube-apiserver and kube-scheduler, or set preflight_handover to gated",
    )


def own_driver(case: Case) -> Iterator[Finding]:
    """With the handover direct our node agents are the DRA driver, beside our scaler and publisher."""
    if not (case.wants("handover", DIRECT) or direct_models(case)):
        return
    if case.wants("controllers", "cohdi"):
        yield stop(
            "handover and controllers",
            "the handover is direct, which CoHDI's components do not know",
            "Set composable_controllers to ours, or preflight_handover to reschedule",
        )
    elif case.wants("handover", DIRECT) and case.plan.get("dra_driver"):
        yield warn(
            "handover and DRA driver",
            "the handover is direct and the vendor's DRA driver is installed: a claim waits while that driver shows "
            "its device",
            "Keep the vendor's DRA driver from the nodes of the fabric, or set preflight_handover to gated",
        )


def gate(case: Case, name: str) -> tuple[bool, str]:
    """Whether a gate is on, and how that is known: the API server's word, else the release's default."""
    told = (case.cluster.get("gates") or {}).get(name)
    if told is not None:
        return bool(told), "says the API server"
    since = case.matrix["kubernetes"]["gates"][name]
    return at_least(series(case.cluster.get("kubernetes")), since), f"by default before {since}"


def taint_rules(case: Case) -> Iterator[Finding]:
    """CoHDI's operator creates DeviceTaintRules in v1alpha3."""
    if not case.wants("controllers", "cohdi"):
        return
    if TAINT_RULES in case.listed("served"):
        yield ok("device taint rules", "resource.k8s.io/v1alpha3 serves them")
        return
    yield stop(
        "device taint rules",
        "resource.k8s.io/v1alpha3 DeviceTaintRule, which CoHDI's operator creates at every detach, is not served",
        "Add --runtime-config=resource.k8s.io/v1alpha3=true,resource.k8s.io/v1beta2=true to kube-apiserver, and "
        "--feature-gates=DRADeviceTaints=true,DRADeviceTaintRules=true to kube-apiserver, kube-scheduler and "
        "kube-controller-manager, or set composable_controllers to ours",
    )


RULES = (kubernetes_version, claims_served, binding_conditions, own_driver, taint_rules)
