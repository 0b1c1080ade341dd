# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_deploy.py` and others share."""

from __future__ import annotations

from typing import Any

from ansible_collections.composable.infra.lab.control_plane.bootstrap import shipped_documents

GROUP = "cro.hpsys.ibm.ie.com"


def of_kind(kind: str) -> dict[str, Any]:
    return {item["metadata"]["name"]: item for item in shipped_documents() if item["kind"] == kind}


def allowed(role: str) -> dict[str, set[str]]:
    """Verbs by "group/resource", core group empty."""
    found: dict[str, set[str]] = {}
    for rule in of_kind("ClusterRole")[role]["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault(f"{group}/{resource}", set()).update(rule["verbs"])
    return found


def schema(plural: str) -> Any:
    crd = of_kind("CustomResourceDefinition")[f"{plural}.{GROUP}"]
    (version,) = crd["spec"]["versions"]
    assert crd["spec"]["scope"] == "Cluster"
    assert (version["name"], version["subresources"]) == ("v1alpha1", {"status": {}})
    return version["schema"]["openAPIV3Schema"]["properties"]
