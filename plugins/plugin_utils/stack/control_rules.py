# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the control node: the command helm, and the CDI Manager with its login."""

from __future__ import annotations

from collections.abc import Iterator

from .findings import Case, Finding, ok, stop, warn

# Parts that are installed as charts.
CHARTS = ("nfd", "gpu_operator", "dra_driver")


def helm(case: Case) -> Iterator[Finding]:
    """Check for the command helm, which installs charts."""
    if "helm" not in case.plan or not any(case.plan.get(part) for part in CHARTS):
        return
    if case.plan["helm"]:
        yield ok("helm", f"charts are installed by {case.plan['helm']}")
    else:
        yield stop("helm", "the control node has no command helm", "Install helm 3, or set composable_helm_binary")


def cdi_manager(case: Case) -> Iterator[Finding]:
    """Check the login to the CDI Manager from the control node, as the controllers use the same."""
    login = case.plan.get("login") or {}
    if not login:
        return
    if not login["problem"]:
        yield ok("CDI Manager", login["said"])
    elif login["reached"]:
        yield stop("CDI Manager", login["problem"], "Correct controllers_config and controllers_credentials")
    else:
        yield warn("CDI Manager", login["problem"],
                   "The control node does not reach it. Make sure that pods of the cluster do, or correct endpoint")


RULES = (helm, cdi_manager)
