# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One process at a time: one that waits for its turn, or has lost it, is not ready and writes nothing."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.controller.autoscaler.errors import Kind, Refused
from ansible_collections.composable.infra.controller.autoscaler.leading import COMPONENT, Leading
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABILITY_REQUESTS, NODES
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import NotLeading
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.leader_election import LeaderElection
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.machines import Machines, regroup
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.testbed import Testbed
from ansible_collections.composable.infra.tests.unit.house.files import ROOT


class Engine:
    """One that works."""

    def ready(self) -> bool:
        return True

    def problems(self) -> list[str]:
        return []

    def stuck(self) -> str:
        return ""


def lose(testbed: Testbed) -> None:
    """Another process leads from now on."""
    testbed.cluster.fence.require(lambda: False)


def test_process_that_does_not_lead_refuses_every_loop(testbed: Testbed) -> None:
    lose(testbed)
    testbed.pod("train")
    testbed.sync()
    for call in (testbed.provider.refresh, lambda: testbed.provider.increase("vertical", 1)):
        with pytest.raises(Refused, match="another process of the provider leads") as raised:
            call()
        assert raised.value.kind == Kind.UNAVAILABLE
    assert testbed.api.of(COMPOSABILITY_REQUESTS) == []


def test_process_that_lost_its_turn_orders_and_writes_nothing_more(testbed: Testbed, machines: Machines) -> None:
    regroup(testbed, scale_down={"policy": "power"})
    for name in ("first", "second", "third"):
        testbed.pod(name, 0, cpu="8")
    testbed.schedule()
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    lose(testbed)
    testbed.provider.serve_nodes()
    testbed.provider.step()
    testbed.provider.serve_untriggered()
    assert machines.ordered == 0
    before = testbed.api.of(NODES)
    with pytest.raises(NotLeading):
        testbed.provider.delete("nodes", [("node-1", "")])
    assert testbed.api.of(NODES) == before


class Turn:
    """Leadership that tests give and take."""

    held = False

    def leaders(self) -> list[str]:
        return ["this one"] if self.held else ["the other one"]


def test_only_the_process_that_leads_is_ready() -> None:
    """A Service sends calls to ready ones only."""
    turn = Turn()
    probed = Leading(Engine(), t.cast(LeaderElection, turn))
    assert not probed.ready()
    assert probed.problems() == ["this process waits to lead. Now the other one leads"]
    turn.held = True
    assert probed.ready()
    assert probed.problems() == []
    assert probed.stuck() == ""


def test_lease_is_the_one_that_the_policy_lets_it_write() -> None:
    policy = (ROOT / "deploy" / "autoscaler" / "policy.yaml").read_text(encoding="utf-8")
    assert f"object.metadata.name == 'composable-infra-{COMPONENT}'" in policy
