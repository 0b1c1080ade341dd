# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate reaper lets held pods go when it sees nobody renew the Lease; clocks of other hosts do not matter."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.controller import gate_reaper
from ansible_collections.composable.infra.controller.gate_reaper import Reaper
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import GATE_LEASES, PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.gate_lease import NAME
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi, answered_by_a_proxy
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import pod

FUTURE, PAST = "2999-01-01T00:00:00.000000Z", "1999-01-01T00:00:00.000000Z"


class Scene:
    """A held pod, the Lease, and a clock."""

    def __init__(self) -> None:
        self.api, self.now = FakeApi(), 1000.0
        self.api.put(PODS, pod("train"))
        self.api.put(PODS, pod("other", "other.example/gate"))

    def lease(self, renewed: str, holder: str = "me") -> None:
        """Somebody writes the Lease."""
        spec: dict[str, t.Any] = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
        self.api.put(GATE_LEASES, {"apiVersion": GATE_LEASES.group_version, "kind": "GateLease", "spec": spec,
                                   "metadata": {"name": NAME, "namespace": "composable-infra"}})

    def reaper(self, grace: float = 30.0) -> Reaper:
        """One that begins to look now."""
        return Reaper(self.api.client, "composable-infra", grace, lambda: self.now)

    def gates(self, name: str = "train") -> list[str]:
        """Gates of a pod."""
        return [gate["name"] for gate in self.api.one(PODS, name, "default")["spec"].get("schedulingGates") or []]


@pytest.fixture
def scene() -> Scene:
    """Nothing has happened."""
    return Scene()


@pytest.mark.parametrize("renewed", [FUTURE, PAST], ids=["a clock that is ahead", "a clock that is behind"])
def test_what_counts_is_how_long_the_lease_is_unchanged(scene: Scene, renewed: str) -> None:
    scene.lease(renewed)
    reaper = scene.reaper()
    assert reaper.look() == 0
    scene.now += 44.9
    assert reaper.look() == 0
    scene.now += 0.1
    assert (reaper.look(), scene.gates(), scene.gates("other")) == (1, [], ["other.example/gate"])


def test_lease_that_is_renewed_keeps_all_gates(scene: Scene) -> None:
    reaper = scene.reaper()
    for number in range(9):
        scene.lease(f"1999-01-01T00:00:0{number}.000000Z")
        scene.now += 40
        assert reaper.look() == 0
    assert reaper.decided
    assert scene.gates()


@pytest.mark.parametrize("given_up", [True, False], ids=["given up", "never made"])
def test_without_a_holder_only_the_grace_counts(scene: Scene, given_up: bool) -> None:
    if given_up:
        scene.lease(PAST, holder="")
    reaper = scene.reaper()
    assert (reaper.look(), reaper.decided) == (0, False)
    scene.now += 30
    assert (reaper.look(), reaper.decided) == (1, True)


def test_pod_that_keeps_its_gate_does_not_stop_the_others(scene: Scene) -> None:
    scene.api.fail("strategic_patch", PODS, Forbidden(403, "Forbidden", "not this one"))
    assert gate_reaper.let_all_go(scene.api.client, "a test") == 0
    scene.api.heal()
    assert gate_reaper.let_all_go(scene.api.client, "a test") == 1


@pytest.mark.parametrize("options", [["--now"], ["--once", "--grace", "0"]])
def test_command_ends_when_the_pods_were_let_go(scene: Scene, monkeypatch: pytest.MonkeyPatch,
                                                options: list[str]) -> None:
    monkeypatch.setattr(Connection, "load", classmethod(lambda cls, *args: None))
    monkeypatch.setattr(gate_reaper, "Client", lambda connection: scene.api.client)
    monkeypatch.setattr(gate_reaper, "set_up_logging", lambda *args: None)
    assert gate_reaper.main(options) == 0
    assert scene.gates() == []


def test_gates_go_after_the_grace_period_where_the_lease_is_not_served() -> None:
    """Without the CRD nobody can renew the GateLease, and gated pods must not wait for ever."""
    scene = Scene()
    scene.lease(FUTURE)
    reaper = scene.reaper()
    assert reaper.look() == 0
    scene.api.fail("get", GATE_LEASES, answered_by_a_proxy())
    scene.now += 100
    assert reaper.look() == 0  # one such answer alone proves nothing
    scene.now += 29
    assert reaper.look() == 0
    scene.now += 2
    assert reaper.look() == 1
