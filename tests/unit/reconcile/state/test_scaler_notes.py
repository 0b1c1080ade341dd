# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a scaler with an account of its own notes on ComposableResources is what the admission policy lets it note."""

from __future__ import annotations

import re
import time

import pytest

from ansible_collections.composable.infra.lab.control_plane.bootstrap import DEPLOY
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import ClaimRef
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey, NodeRecordsKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values.claim_values import read_claim
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench

POLICY = (DEPLOY / "policy" / "devices.yaml").read_text(encoding="utf-8")


def permitted() -> set[str]:
    """Annotations that the policy lets the scaler change."""
    found = re.search(r"variables\.changedNotes\.all\(.*?k in \[(.*?)\]", POLICY, re.DOTALL)
    assert found
    return set(re.findall(r"'([^']+)'", found.group(1)))


@pytest.fixture
def scaler(bench: Bench) -> Bench:
    """A scaler alone, and a device that is attached and idle."""
    bench.build(frozenset({"scaler"}))
    bench.put(objects.request(size=1), objects.local_slice("GPU-d1"),
              objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, state="Online"))
    return bench


def test_each_note_of_a_claims_way_is_permitted(scaler: Bench) -> None:
    """It is told to move on, uses the device, is gone, and how long that took is written down."""
    for claim in (objects.claim("train", objects.pool_result()), objects.claim("train", objects.local_result())):
        scaler.put(claim)
        scaler.reconcile(NodeKey("node-0"))
        scaler.reconcile(NodeRecordsKey("node-0"))
    ref = ClaimRef.of(claim)
    scaler.claim_steps.took("handover", [ref], time.time() - 1.0)
    scaler.claim_steps.over([read_claim(claim)], node="node-0")
    scaler.claim_steps.timelines.running([ref])
    scaler.reconcile(NodeRecordsKey("node-0"))
    written = [call.body["metadata"]["annotations"] for call in scaler.api.writes(COMPOSABLE_RESOURCES)]
    assert {name for notes in written for name in notes} == permitted()
