# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a cluster and a plan by all rules before anything is installed."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...module_utils.planning.device_info import HANDOVERS
from . import (
    class_rules,
    cluster_rules,
    control_rules,
    driver_rules,
    findings,
    node_rules,
    operator_rules,
    queue_rules,
)
from .findings import Case, Finding, result, stop
from .matrix import matrix

RULES = (*control_rules.RULES, *cluster_rules.RULES, *class_rules.RULES, *operator_rules.RULES, *driver_rules.RULES,
         *node_rules.RULES, *queue_rules.RULES)
_CHOICES: dict[str, tuple[str, ...]] = {
    "platform": ("kubernetes", "rke2", "k3s", "openshift"),
    "controllers": ("ours", "cohdi"),
    "handover": HANDOVERS,
    "driver_shape": ("host", "container"),
    "gpu_operator_mode": ("cluster_policy", "gpu_cluster"),
    "cohdi_device_resource": ("DRA", "DEVICE_PLUGIN"),
    "mapping": ("provider_id", "bare_metal_host"),
    "sharing": ("none", "time_slicing", "mps", "mig"),
}


def judge(
    cluster: Mapping[str, t.Any], plan: Mapping[str, t.Any], versions: Mapping[str, t.Any] | None = None
) -> list[Finding]:
    """Return all findings, the stopping ones first."""
    wrong = list(misnamed(plan))
    if wrong:
        return wrong
    return findings.judge(RULES, Case(cluster, plan, versions if versions is not None else matrix()))


def misnamed(plan: Mapping[str, t.Any]) -> list[Finding]:
    """Return findings about choices of the plan that do not exist."""
    return [
        stop("plan", f"{name} is {plan.get(name)!r}", f"Set it to one of {', '.join(allowed)}")
        for name, allowed in _CHOICES.items()
        if plan.get(name) not in allowed
    ]


def preflight(cluster: Mapping[str, t.Any], plan: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return findings, report and stopping ones in the form for the filter."""
    return result("preflight", judge(cluster, plan))
