# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes have hands: an agent by its Lease, and by our own clock alone."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_agents import NodeAgents


def lease(renewed: str, holder: str = "node-0", duration: int = 90) -> dict[str, t.Any]:
    """An agent's Lease."""
    return {"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": duration}}


@pytest.fixture
def clock() -> list[float]:
    return [1000.0]


@pytest.fixture
def agents(clock: list[float]) -> NodeAgents:
    return NodeAgents("agent", lambda: clock[0])


def test_a_node_without_an_agent_has_none(agents: NodeAgents) -> None:
    assert agents.missing("node-0").startswith("node node-0 has no node agent. Install it")


def test_an_agent_lives_while_its_lease_changes(agents: NodeAgents, clock: list[float]) -> None:
    assert agents.lease_changed("node-0", lease("1"))
    clock[0] += 60
    assert not agents.lease_changed("node-0", lease("2"))
    clock[0] += 89
    assert agents.missing("node-0") == ""
    clock[0] += 1
    assert "no longer renews its Lease" in agents.missing("node-0")


def test_a_lease_that_is_told_again_unchanged_keeps_nobody_alive(agents: NodeAgents, clock: list[float]) -> None:
    agents.lease_changed("node-0", lease("1"))
    clock[0] += 60
    agents.lease_changed("node-0", lease("1"))
    clock[0] += 30
    assert agents.missing("node-0")


def test_an_agent_that_comes_back_is_news(agents: NodeAgents, clock: list[float]) -> None:
    agents.lease_changed("node-0", lease("1"))
    clock[0] += 91
    assert agents.lease_changed("node-0", lease("2"))
    assert agents.missing("node-0") == ""


@pytest.mark.parametrize("how", ["deleted", "given up"])
def test_an_agent_that_leaves_is_gone_at_once(agents: NodeAgents, how: str) -> None:
    agents.lease_changed("node-0", lease("1"))
    if how == "deleted":
        agents.lease_gone("node-0")
    else:
        agents.lease_changed("node-0", lease("2", holder=""))
    assert agents.missing("node-0")


def test_one_nodes_agent_is_no_others(agents: NodeAgents) -> None:
    agents.lease_changed("node-0", lease("1"))
    assert agents.missing("node-1")


def test_playbooks_are_always_there_and_nobody_never_is() -> None:
    assert NodeAgents("ssh").missing("node-0") == ""
    assert NodeAgents("none").missing("node-0").startswith("node_operations is none")
    assert [NodeAgents(kind).give_evidence for kind in ("agent", "ssh", "none")] == [True, True, False]
