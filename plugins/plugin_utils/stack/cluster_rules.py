# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the cluster: version, served APIs and feature gates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...module_utils.kube.objects import taints
from ...module_utils.planning.device_info import DIRECT, RESCHEDULE
from .class_rules import direct_models
from .findings import Case, Finding, ok, stop, warn
from .matrix import at_least, series

CLAIMS = "resource.k8s.io/v1/resourceclaims"
COHDI_VERSION = "v1alpha3"
TAINT_RULES = {version: f"resource.k8s.io/{version}/devicetaintrules" for version in taints.VERSIONS}
BINDING = "DRADeviceBindingConditions"


def kubernetes_version(case: Case) -> Iterator[Finding]:
    """Check that the API server is new enough, and of a tested version."""
    have, wanted = str(case.cluster.get("kubernetes", "")), case.matrix["kubernetes"]
    found = f"Kubernetes is {have.removeprefix('v') or 'of an unknown version'}"
    if not at_least(have, wanted["minimum"]):
        yield stop("kubernetes version", found, f"Upgrade the cluster to {wanted['minimum']} or later")
    elif series(have) not in wanted["known"]:
        yield warn("kubernetes version", found, f"This version is not tested. Tested are {', '.join(wanted['known'])}")
    else:
        yield ok("kubernetes version", found)


def claims_served(case: Case) -> Iterator[Finding]:
    """Check that ResourceClaims are served in v1."""
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
    """Check the feature gate for the handovers direct and reschedule.

    The handover gated needs no feature gate.
    """
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
    """Check the handover direct, in which our node agents are the DRA driver.

    It needs our scaler and publisher, and no other driver.
    """
    if not (case.wants("handover", DIRECT) or direct_models(case)):
        return
    if case.wants("controllers", "cohdi"):
        yield stop(
            "handover and controllers",
            "the handover is direct, which CoHDI's components do not support",
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
    """Return whether a gate is on, and the source: the API server or the release's default."""
    told = (case.cluster.get("gates") or {}).get(name)
    if told is not None:
        return bool(told), "says the API server"
    since = case.matrix["kubernetes"]["gates"][name]
    return at_least(series(case.cluster.get("kubernetes")), since), f"by default before {since}"


def taint_rules(case: Case) -> Iterator[Finding]:
    """Check that the scheduler supports DeviceTaintRules.

    Check too that CoHDI's operator can create them.

    CoHDI's operator uses v1alpha3. A node agent proves that a device is idle, and removes the
    device from the bus. Until the DRA plugin publishes its next ResourceSlice, only a
    DeviceTaintRule keeps the scheduler from a removed device.
    """
    rows, have = case.matrix["kubernetes"]["taint_rules"], series(case.cluster.get("kubernetes"))
    if not (row := next((rows[each] for each in reversed(rows) if at_least(have, each)), None)):
        return
    version, told = row["version"], case.cluster.get("gates") or {}
    served = [each for each in TAINT_RULES if TAINT_RULES[each] in case.listed("served")]
    if case.wants("controllers", "cohdi") and COHDI_VERSION not in served:
        yield stop(
            "device taint rules",
            f"resource.k8s.io/{COHDI_VERSION} DeviceTaintRule, which CoHDI's operator creates at every detach, is not "
            "served",
            f"{_flags([COHDI_VERSION, version], row['gates'])}, or set composable_controllers to ours",
        )
        return
    gates = [name for name in ("DRADeviceTaints", "DRADeviceTaintRules")
             if not told.get(name, name not in row["gates"])]
    missing = [] if version in ("v1", *served) else [version]
    if gates:
        yield warn(
            "device taint rules",
            f"the scheduler ignores DeviceTaintRules ({', '.join(gates)} off), so a new pod can be allocated a "
            "device that has just left its node",
            _flags(missing, gates),
        )
    elif missing:
        yield stop(
            "device taint rules",
            f"the scheduler waits for resource.k8s.io/{version} DeviceTaintRule, which is not served, and schedules no "
            "pod",
            _flags(missing, gates),
        )
    else:
        yield ok("device taint rules", f"the scheduler honors those of resource.k8s.io/{version}")


def _flags(versions: Sequence[str], gates: Sequence[str]) -> str:
    """Return the flags that serve these versions of ``resource.k8s.io`` and turn the gates on."""
    config = ",".join(f"resource.k8s.io/{each}=true" for each in dict.fromkeys(versions) if each != "v1")
    features = ",".join(f"{name}=true" for name in gates)
    flags = [f"--runtime-config={config} to kube-apiserver"] if config else []
    if features:
        flags.append(f"--feature-gates={features} to kube-apiserver, kube-scheduler and kube-controller-manager")
    return f"Add {', and '.join(flags)}"


RULES = (kubernetes_version, claims_served, binding_conditions, own_driver, taint_rules)
