# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to learn about other tenants. None works."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.controller.health import HealthServer
from ansible_collections.composable.infra.plugins.module_utils.kube.event_recorder import Recorder
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import Detach
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey, NodeKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.event_reporter import EventReporter
from ansible_collections.composable.infra.tests.unit.controller import test_access
from ansible_collections.composable.infra.tests.unit.hostile_tenant.tenants import RED, red_asks, reds
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

Json = dict[str, t.Any]
SECRET = "secret-project"  # a name of the other tenant's that red must not learn


class Heard:
    """A recorder that keeps what is told to objects of red's."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.others: list[str] = []

    def event(self, regarding: Json, reason: str, message: str, type_: str = "Normal") -> None:
        whose = self.messages if regarding["metadata"].get("namespace") == RED else self.others
        whose.append(message)


@pytest.fixture
def heard(both: Bench) -> Heard:
    """What the reporter of the bench tells."""
    made = Heard()
    both.reporter._recorder = t.cast(Recorder, made)
    assert isinstance(both.reporter, EventReporter)
    return made


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/status", "/metrics", "/other/team-a/secret"])
def test_way_22_reads_the_endpoints_of_the_controllers(server: HealthServer, path: str) -> None:
    test_access.test_who_is_not_known_learns_of_no_claim(server, path)


def test_way_23_waits_beside_a_device_that_cannot_leave(both: Bench, heard: Heard) -> None:
    """Which claim of which tenant has it is told on the device, and to nobody who waits for another."""
    both.fabric.attached["d1"] = device("d1")
    both.put(objects.local_slice("GPU-d1"), objects.claim(SECRET, objects.local_result("gpu-0")),
             objects.request(size=1), reds(objects.claim("evil", objects.pool_result())),
             objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, deleted=True, state="Online",
                              RELEASE="now", NODE=Evidence("Removed", "d1", release="now").to_json()))
    both.detaches.detach(Detach("node-0", "not wanted", "gpu-a", "machine-0", "d1"))
    both.idle()
    both.reconcile(NodeKey("node-0"))
    both.idle()
    assert SECRET in both.status()["error"]
    assert any(SECRET in message for message in heard.others)
    assert heard.messages, "it hears of its own device"
    assert not any(SECRET in message for message in heard.messages)


def test_way_24_has_its_pod_sent_to_a_node_where_a_device_is_stuck(both: Bench, heard: Heard) -> None:
    """Which process of which tenant holds it is not told to red."""
    red_asks(both)
    both.reconcile(GatesKey())
    both.fabric.attached["d1"] = device("d1")
    stuck = Evidence("Ready", "d1", uuid="GPU-d1").with_trouble(
        "OpenOnNode", f"pid 42 ({SECRET}) has /dev/nvidia0 open", 1.0)
    both.hands.idle = True
    both.put(objects.local_slice("GPU-d1"), objects.request(size=1),
             objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, deleted=True, state="Detaching",
                              RELEASE="now", NODE=stuck.to_json()))
    both.reconcile(NodeKey("node-0"))
    both.idle()
    both.reconcile(GatesKey())
    told = [*heard.messages, *(reason.waits_for for reason in both.gating.wait_reasons)]
    assert any("cannot be removed from node node-0" in message for message in told)
    assert not any(SECRET in message for message in told)
