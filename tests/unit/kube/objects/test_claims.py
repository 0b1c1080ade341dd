# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By what a claim is known: one that the scheduler makes for extended resources is made anew, its pod is not."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import PodRef

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod-uid", "controller": True}


def claim(special: str | None = "true", uid: str = "one", namespace: str = "team-a", owner_uid: str = "pod-uid",
          **owner: Any) -> dict[str, Any]:
    notes = {} if special is None else {"resource.kubernetes.io/extended-resource-claim": special}
    return {"metadata": {"uid": uid, "namespace": namespace, "annotations": notes,
                         "ownerReferences": [{**OWNER, "uid": owner_uid, **owner}]}}


def test_a_special_claim_is_known_by_its_pod() -> None:
    assert claims.identity(claim(uid="one")) == claims.identity(claim(uid="two"))
    assert claims.identity(claim()) == PodRef("team-a", "p", "pod-uid").special_claim


@pytest.mark.parametrize("other", [
    claim(special=None), claim(special="false"), claim(controller=False), claim(kind="Job"),
    {"metadata": {"uid": "one", "namespace": "team-a"}}])
def test_any_other_is_known_by_its_uid(other: dict[str, Any]) -> None:
    assert claims.identity(other) == "one"


def test_nobody_passes_for_the_claim_of_another_namespace() -> None:
    """Whoever may create claims may write annotation and owner."""
    assert claims.identity(claim(namespace="team-b")) != PodRef("team-a", "p", "pod-uid").special_claim


@pytest.mark.parametrize("forged", ["pod-uid uid-of-another", "pod-uid\n", "a/pod-uid", "x" * 300_000, ""])
def test_owner_that_no_api_server_named_is_not_believed(forged: str) -> None:
    """The identity is written into annotations that others' claims share, whose parts and length count."""
    assert claims.identity(claim(owner_uid=forged)) == "one"
