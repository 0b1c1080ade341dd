# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Lease of the gates is renewed only while somebody serves the pods that are held on its account."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.coordination import gate_lease
from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.gate_lease import GateLease
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden
from ansible_collections.composable.infra.tests.unit.kube.coordination.fake_leases import FakeLeases


@pytest.fixture
def api() -> FakeLeases:
    """An API server with this one Lease."""
    return FakeLeases()


class Served:
    """Why held pods are not served now, as the test says."""

    def __init__(self) -> None:
        self.problem = ""

    def __call__(self) -> str:
        return self.problem


@pytest.fixture
def served() -> Served:
    """They are."""
    return Served()


@pytest.fixture
def lease(api: FakeLeases, served: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[GateLease]:
    """A Lease that is being held, or not, as ``served`` says."""
    monkeypatch.setattr(gate_lease, "ATTEMPT_SECONDS", 0.01)
    monkeypatch.setattr(gate_lease, "RETRY_SECONDS", 0.01)
    made = GateLease(api.client, "ns", problem=served)
    yield made
    made.stop()


def holder(api: FakeLeases) -> str:
    """Who holds it."""
    return str(api.spec["holderIdentity"]) if api.stored else ""


def test_pods_are_gated_from_start_to_stop(api: FakeLeases, lease: GateLease) -> None:
    lease.start()
    assert api.wait_for(lambda: bool(holder(api)))
    lease.stop()
    assert holder(api) == ""


def test_no_pod_is_gated_before_held_pods_are_served(api: FakeLeases, lease: GateLease, served: Served,
                                                     caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "composable.infra")
    served.problem = "no poll of the CDI Manager has succeeded yet"
    lease.start()
    assert not api.wait_for(lambda: bool(holder(api)), 0.1)
    served.problem = ""
    assert api.wait_for(lambda: bool(holder(api)))
    lease.stop()
    said = [record.getMessage() for record in caplog.records if " new pods" in record.getMessage()]
    assert said == ["The policy does not gate new pods: no poll of the CDI Manager has succeeded yet",
                    "The policy gates new pods again"]


def test_it_is_given_up_while_passes_fail_and_taken_again(api: FakeLeases, lease: GateLease, served: Served) -> None:
    lease.start()
    assert api.wait_for(lambda: bool(holder(api)))
    served.problem = "gated pods were last planned 16 s ago"
    assert api.wait_for(lambda: not holder(api))
    served.problem = ""
    assert api.wait_for(lambda: bool(holder(api)))


def test_refusal_is_said_once_and_tried_again(api: FakeLeases, lease: GateLease,
                                              caplog: pytest.LogCaptureFixture) -> None:
    api.fail = Forbidden(403, "Forbidden", "leases may not be created")
    lease.start()
    assert not api.wait_for(lambda: bool(api.stored), 0.1)
    api.fail = None
    assert api.wait_for(lambda: bool(holder(api)))
    assert sum("cannot be taken" in record.getMessage() for record in caplog.records) == 1


def test_time_of_the_renewal_is_the_api_servers(api: FakeLeases, lease: GateLease) -> None:
    """The policy compares it with the API server's; the holder's own clock may be wrong."""
    lease.start()
    assert api.wait_for(lambda: bool(holder(api)))
    assert api.spec["renewTime"] == "2030-03-17T17:46:40.000000Z"
