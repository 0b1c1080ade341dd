# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths are those of the Kubernetes API, and names cannot break out of them."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    LEASES,
    NODES,
    PODS,
    ApiResource,
)

Where = tuple[str | None, str | None, str | None]

PATHS: list[tuple[ApiResource, Where, str]] = [
    (NODES, (None, None, None), "/api/v1/nodes"),
    (NODES, ("n0", None, None), "/api/v1/nodes/n0"),
    (NODES, ("n0", "ignored", None), "/api/v1/nodes/n0"),
    (PODS, (None, None, None), "/api/v1/pods"),
    (PODS, (None, "ns", None), "/api/v1/namespaces/ns/pods"),
    (PODS, ("p", "ns", "status"), "/api/v1/namespaces/ns/pods/p/status"),
    (CLAIMS, ("c", "ns", "status"), "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c/status"),
    (LEASES, ("l", "ns", None), "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"),
    (COMPOSABILITY_REQUESTS, ("r", None, None), "/apis/cro.hpsys.ibm.ie.com/v1alpha1/composabilityrequests/r"),
    (NODES, ("../secrets?x", None, None), "/api/v1/nodes/..%2Fsecrets%3Fx"),
]


@pytest.mark.parametrize(("res", "where", "path"), PATHS)
def test_path(res: ApiResource, where: Where, path: str) -> None:
    assert res.path(*where) == path


@pytest.mark.parametrize(
    ("res", "where"),
    [(PODS, ("p", None, None)), (PODS, ("p", "", None)), (NODES, ("", None, None)), (NODES, (None, None, "status"))],
)
def test_impossible_paths_are_refused(res: ApiResource, where: Where) -> None:
    with pytest.raises(ValueError, match=r"(Pod|Node)"):
        res.path(*where)
