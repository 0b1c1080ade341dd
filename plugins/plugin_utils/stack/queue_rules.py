# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about ProvisioningRequests, and about Kueue, which creates them."""

from __future__ import annotations

from collections.abc import Iterator

from .findings import Case, Finding, ok, stop, warn

REQUESTS = "provisioningrequests.autoscaling.x-k8s.io"
QUEUES = "clusterqueues.kueue.x-k8s.io"
DEFINITION = "cluster-autoscaler/apis/config/crd/autoscaling.x-k8s.io_provisioningrequests.yaml"


def requests_served(case: Case) -> Iterator[Finding]:
    """Check that the CRD of ProvisioningRequests exists if the controllers serve them."""
    if not (case.plan.get("config") or {}).get("provisioning_requests"):
        return
    if REQUESTS in case.listed("crds"):
        yield ok("provisioning requests", "the cluster has ProvisioningRequests")
        return
    yield stop(
        "provisioning requests",
        f"provisioning_requests is true and the cluster has no CRD {REQUESTS}",
        f"Apply {DEFINITION} of kubernetes/autoscaler, or set provisioning_requests to false",
    )


def quota_for_selectors(case: Case) -> Iterator[Finding]:
    """Check that Kueue can give quota to claims with selectors.

    Kueue counts matching devices in ResourceSlices before it gives quota (``pkg/dra/claims.go``).
    Without the publisher no ResourceSlice has a device that is not attached yet.
    """
    components = case.plan.get("components")
    if QUEUES not in case.listed("crds") or not components or "publisher" in components:
        return
    named = sorted({str(each["object"]) for each in case.listed("requests") if each.get("selectors")})
    if named:
        yield warn(
            "quota of Kueue",
            f"Kueue gives {', '.join(named)} no quota, since its selectors need devices in ResourceSlices, and the "
            "publisher does not run",
            "Add publisher to controllers_components, or request devices without selectors",
        )


RULES = (requests_served, quota_for_selectors)
