# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Lease that says that the node agent is alive."""

from __future__ import annotations

import json

import pytest

from ansible_collections.composable.infra.controller.agent.agent_lease import (
    DURATION_SECONDS,
    RENEW_SECONDS,
    RETRY_SECONDS,
    AgentLease,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import LEASES
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_agents import (
    AGENT,
    PLACES,
    NodeAgents,
)
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi, unreachable

SPACE = "composable-infra"


def test_made_renewed_and_given_up() -> None:
    api, moments = FakeApi(), iter([1000.0, 1030.0, 1060.0])
    lease = AgentLease(api.client, SPACE, "node-0", lambda: next(moments))
    operations = NodeAgents(AGENT)
    assert lease.renew() == RENEW_SECONDS
    made = api.one(LEASES, "node-agent-node-0", SPACE)
    assert made["metadata"]["labels"] == {"composable.infra/component": "node-agent"}
    assert made["spec"]["holderIdentity"] == "node-0"
    assert made["spec"]["leaseDurationSeconds"] == DURATION_SECONDS
    operations.lease_changed("node-0", made)
    assert operations.missing("node-0") == ""
    lease.renew()
    renewed = api.one(LEASES, "node-agent-node-0", SPACE)
    assert renewed["spec"]["renewTime"] > made["spec"]["renewTime"]
    assert renewed["spec"]["acquireTime"] == made["spec"]["acquireTime"]
    lease.give_up()
    operations.lease_changed("node-0", api.one(LEASES, "node-agent-node-0", SPACE))
    assert "no longer renews" in operations.missing("node-0")


def test_a_failure_is_told_and_tried_again() -> None:
    api = FakeApi()
    api.fail("merge_patch", LEASES, unreachable(), times=1)
    lease = AgentLease(api.client, SPACE, "node-0")
    assert lease.renew() == RETRY_SECONDS
    assert "does not answer" in lease.last_error
    assert lease.renew() == RENEW_SECONDS
    assert lease.last_error == ""
    api.fail("merge_patch", LEASES, unreachable())
    lease.give_up()


def test_what_all_devices_of_the_fabric_share_is_told_and_taken_back() -> None:
    api, places = FakeApi(), dict[str, str | int]()
    lease, operations = AgentLease(api.client, SPACE, "node-0", places=lambda: places), NodeAgents(AGENT)
    seen = []
    told: list[dict[str, str | int]] = [{}, {"pcieRoot": "pci0000:80", "numaNode": 1}, {"barRoom": 256 << 30}, {}]
    for each in told:
        places.clear()
        places.update(each)
        lease.renew()
        operations.lease_changed("node-0", api.one(LEASES, "node-agent-node-0", SPACE))
        seen.append(dict(operations.places("node-0")))
        notes = api.one(LEASES, "node-agent-node-0", SPACE)["metadata"].get("annotations") or {}
        assert json.loads(notes.get(PLACES) or "{}") == ({**each, "version": 1} if each else {})
    assert seen == told
    operations.lease_gone("node-0")
    assert operations.places("node-0") == {}


@pytest.mark.parametrize(("text", "places"), [
    ("{", {}), ("[]", {}), ('{"pcieRoot": 7.5, "numaNode": true}', {}),
    ('{"other": "x", "numaNode": 0}', {"numaNode": 0}), ('{"version": 1, "numaNode": 0}', {"numaNode": 0}),
    ('{"version": 2, "numaNode": 0}', {})])
def test_places_that_cannot_be_read_are_not_known(text: str, places: dict[str, int]) -> None:
    operations = NodeAgents(AGENT)
    operations.lease_changed("n", {"metadata": {"annotations": {PLACES: text}}, "spec": {"holderIdentity": "n"}})
    assert operations.places("n") == places
