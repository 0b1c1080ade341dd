# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The admission policy and clocks: that of whoever opens gates may be wrong by any amount."""

from __future__ import annotations

import time

import pytest

from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.server_clock import ServerClock
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.gate_lease import GateLease
from ansible_collections.composable.infra.tests.e2e.gated.gated_support import STAGE, lets_new_pods_go
from ansible_collections.composable.infra.tests.e2e.support.support import holds_new_pods, wait_for

pytestmark = pytest.mark.e2e
__all__ = ["STAGE"]


@pytest.mark.parametrize("wrong", [-3600.0, 3600.0], ids=["an hour behind", "an hour ahead"])
def test_pods_are_held_while_the_lease_is_renewed_and_not_longer(stage: Stage, monkeypatch: pytest.MonkeyPatch,
                                                                 wrong: float) -> None:
    client = Client(Connection.load(str(stage.kubeconfig)))
    monkeypatch.setattr(client._transport, "clock", ServerClock(lambda: time.time() + wrong))
    lease = GateLease(client, "composable-infra")
    lease.start()
    try:
        wait_for("new pods are held", lambda: holds_new_pods(stage), 10)
        lease.stop()
        wait_for("new pods are held no more", lambda: lets_new_pods_go(stage), 10)
    finally:
        lease.stop()
        client.close()
