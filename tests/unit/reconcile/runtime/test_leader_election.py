# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several Leases, one leader: a silent one is followed after the time of one Lease, however many there are."""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.coordination import lease as lease_module
from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.lease import Lease
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager import leader_election
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.leader_election import LeaderElection
from ansible_collections.composable.infra.tests.unit.kube.coordination.fake_leases import FakeLeases

COMPONENTS = ["operator", "publisher", "scaler"]


class Leases:
    """One server of Leases for each name; ``looked`` is called before each read."""

    def __init__(self) -> None:
        self.each = {f"composable-infra-{name}": FakeLeases() for name in COMPONENTS}
        self.reads = 0
        self.looked: t.Callable[[], None] = lambda: None

    def raw(self, method: str, path: str, body: t.Any = None, **more: t.Any) -> t.Any:
        name = body["metadata"]["name"] if method == "POST" else path.rpartition("/")[2]
        if method == "GET":
            self.reads += 1
            self.looked()
        return self.each[name].raw(method, path, body, **more)


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that all Leases go by; each attempt is one look."""
    now = [1000.0]
    monkeypatch.setattr(lease_module, "boot_clock", lambda: now[0])
    monkeypatch.setattr(leader_election, "ATTEMPT_SECONDS", 0.0)
    return now


def held_by_another(leases: Leases) -> None:
    """A holder on another host has all three."""
    for name, server in leases.each.items():
        other = Lease(t.cast(Client, server), "ns", name, "other/boot/1/20/200")
        assert other.acquire(0)
        other._stop.set()


def leads(leadership: LeaderElection) -> bool:
    """Whether it leads at this moment."""
    return leadership.held


def test_silent_leader_is_followed_when_one_lease_has_expired(moment: list[float]) -> None:
    leases, stop = Leases(), threading.Event()
    held_by_another(leases)

    def looked() -> None:
        if leases.reads == 7:
            moment[0] += 15.0
        if leases.reads > 20:
            stop.set()

    leases.looked = looked
    leadership = LeaderElection(t.cast(Client, leases), "ns", COMPONENTS, lambda: None)
    try:
        assert leadership.lead(stop)
        assert [leads(leadership), *moment] == [True, 1015.0]
        moment[0] += 12.0
        assert not leads(leadership), "it stops before others may begin"
    finally:
        leadership.leave()
