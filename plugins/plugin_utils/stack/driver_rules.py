# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about compatible DRA drivers, driver branches, CoHDI's operator and sharing of GPUs."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

from .findings import Case, Finding, ok, stop, warn
from .matrix import at_least

NAME_LABEL = "app.kubernetes.io/name"


def branch(case: Case) -> Iterator[Finding]:
    """Check that the driver branch is known, new enough for DRA, and safe when it releases GPUs."""
    have, known = case.plan.get("driver_branch"), case.matrix["driver"]
    if str(have) not in map(str, known["branches"]):
        yield stop(
            "driver branch",
            f"the matrix does not know the driver branch {have}",
            f"Set composable_driver_branch to one of {', '.join(map(str, known['branches']))}",
        )
    elif case.plan.get("gpu_operator_driver") and str(have) not in known["versions"]:
        yield stop(
            "driver branch",
            f"the matrix has no version of branch {have} for a driver container",
            f"Set composable_driver_branch to one of {', '.join(known['versions'])}",
        )
    elif known["unsafe_removal"][0] <= int(str(have)) <= known["unsafe_removal"][1]:
        yield warn(
            "driver branch",
            f"with branch {have} a removal that begins while anything holds the GPU never ends",
            f"Prefer composable_driver_branch={known['default_branch']}",
        )
    else:
        yield ok("driver branch", f"branch {have} releases GPUs")


def dra_driver(case: Case) -> Iterator[Finding]:
    """Check the versions of Kubernetes and the driver for the DRA driver."""
    if not case.plan.get("dra_driver"):
        return
    needs, have = case.matrix["nvidia_dra_driver"], case.cluster.get("kubernetes")
    if not at_least(have, needs["kubernetes"]):
        yield warn(
            "DRA driver and Kubernetes",
            f"the DRA driver asks for Kubernetes {needs['kubernetes']} and this is {have}",
            f"Upgrade to {needs['kubernetes']} or later",
        )
    if found := older_branch(case, "the DRA driver", needs["driver_branch"]):
        change = f"Set composable_driver_branch to {case.matrix['driver']['default_branch']}"
        yield stop("DRA driver and driver", found, change)


def older_branch(case: Case, who: str, floor: t.Any) -> str:
    """Return a sentence if the planned driver branch is older than required, or an empty text."""
    planned = case.plan.get("driver_branch")
    return "" if at_least(planned, floor) else f"{who} needs driver branch {floor} and {planned} is planned"


def dra_downgrade(case: Case) -> Iterator[Finding]:
    """Refuse a downgrade of the DRA driver below 0.4.0."""
    new_name, former = (
        case.matrix["charts"]["nvidia_dra_driver"]["name"],
        case.matrix["nvidia_dra_driver"]["former_chart"],
    )
    installed = [r for r in case.listed("releases") if r["chart"] == new_name]
    if installed and case.plan.get("dra_driver") and case.wants("dra_chart", former):
        yield stop(
            "DRA driver downgrade",
            f"{new_name} {installed[0]['version']} is installed and {former} cannot read what it has stored",
            f"Keep nvidia_dra_driver_chart_name={new_name}, or remove it first with no claim prepared",
        )


def plugin_name(case: Case) -> Iterator[Finding]:
    """Check the label by which CoHDI's operator finds the plugin."""
    if not case.wants("controllers", "cohdi") or not case.wants("cohdi_device_resource", "DRA"):
        return
    version, names = str(case.plan.get("cohdi_operator")), case.matrix["cohdi"]["plugin_names"]
    wanted = names.get(version.removeprefix("v"))
    carried = case.plan.get("dra_name_override") or case.plan.get("dra_chart")
    if wanted is None:
        yield stop(
            "CoHDI and DRA driver",
            f"the matrix does not know CoHDI's operator {version}",
            f"Use one of {', '.join(names)}",
        )
    elif not case.plan.get("dra_driver"):
        yield stop(
            "CoHDI and DRA driver",
            "CoHDI's operator in mode DRA has no DRA plugin to restart",
            "Set preflight_dra_driver to true, or preflight_cohdi_device_resource to DEVICE_PLUGIN",
        )
    elif wanted != carried:
        yield stop(
            "CoHDI and DRA driver",
            f"CoHDI's operator {version} looks for pods with {NAME_LABEL}={wanted} "
            f"and the DRA driver's pods carry {carried}",
            _rename(wanted, case),
        )


def _rename(wanted: str, case: Case) -> str:
    if wanted == case.plan.get("dra_chart"):
        return f"Remove nvidia_dra_driver_name_override, so that they carry {wanted}"
    return f"Set nvidia_dra_driver_name_override to {wanted}, or use another version of CoHDI's operator"


def cohdi_operator(case: Case) -> Iterator[Finding]:
    """Check the other requirements of CoHDI's operator."""
    if not case.wants("controllers", "cohdi"):
        return
    if case.wants("driver_shape", "host") and not case.plan.get("cohdi_privileged_agent"):
        yield stop(
            "CoHDI and host driver",
            "with a driver on the hosts CoHDI's operator can reach nvidia-smi only through its privileged agent",
            "Set composable-resource-operator.common.deployPrivilegedAgent to true in cohdi_values",
        )
    if case.wants("cohdi_device_resource", "DEVICE_PLUGIN") and not case.plan.get("gpu_operator_dcgm"):
        yield stop(
            "CoHDI and DCGM",
            "CoHDI's operator in mode DEVICE_PLUGIN restarts the DaemonSet nvidia-dcgm, "
            "which is not deployed, and no detach would end",
            "Set gpu_operator_dcgm to true",
        )


def feature_gates(case: Case) -> Iterator[Finding]:
    """Check the planned gates of the DRA driver, and warn about their costs."""
    known = case.matrix["nvidia_dra_driver"]
    planned = {**dict.fromkeys(known["gates_on"], True), **(case.plan.get("dra_feature_gates") or {})}
    on = {name for name, is_on in planned.items() if is_on}
    for found, change in _gate_faults(known, on):
        yield stop("feature gates of the DRA driver", found, f"{change} nvidia_dra_driver_feature_gates")
    for gate in sorted(on.intersection(known["holding_gates"])):
        yield warn(
            "feature gates of the DRA driver",
            f"with {gate} the plugin has every GPU open: the node agent restarts it once more for each GPU that "
            "leaves a node, and without node agents no GPU leaves",
            f"Keep controllers_node_operations at agent, or remove {gate} from nvidia_dra_driver_feature_gates",
        )


def _gate_faults(known: dict[str, t.Any], on: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the faults of the active gates, each with the first words of the advice."""
    for pair in known["exclusive_gates"]:
        if on.issuperset(pair):
            yield f"{pair[0]} and {pair[1]} exclude each other", "Remove one of them from"
    for gate, required in known["required_gates"]:
        if gate in on and required not in on:
            yield f"{gate} requires {required}, which is off", f"Set {required} to true or {gate} to false in"


def sharing(case: Case) -> Iterator[Finding]:
    """Check for ways of sharing GPUs that exclude each other."""
    method, dra = case.plan.get("sharing", "none"), bool(case.plan.get("dra_driver"))
    if method in ("time_slicing", "mps") and not case.plan.get("gpu_operator_device_plugin"):
        yield stop(
            "sharing",
            f"{method} is done by the device plugin, which is off",
            "Set gpu_operator_device_plugin to true and preflight_dra_driver to false, or gpu_sharing_method to "
            + ("mig or none" if dra else "none"),
        )


RULES = (branch, dra_driver, dra_downgrade, plugin_name, cohdi_operator, feature_gates, sharing)
