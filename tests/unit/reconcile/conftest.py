# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the reconcile tests: a bench with one node, and retries that do not take their time."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.net.backoff import Backoff
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node import attach_operations
from ansible_collections.composable.infra.tests.unit.planning.builders import DRIVER, rows
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench, begun
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import node, opted_in

MANAGER = {"endpoint": "https://manager.example", "tenant": "00000000-0000-4000-8000-000000000001", "username": "u",
           "password": "p", "realm": "r", "client_id": "c", "client_secret": "s"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries do not take their time."""
    monkeypatch.setattr(attach_operations, "BACKOFF", Backoff(0.001))
    monkeypatch.setattr(logging.getLogger("composable.infra"), "disabled", True)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A node with a machine on fabric 1, known to the cluster and to the manager, and nothing else."""
    made = Bench()
    made.build()
    made.put(objects.node())
    made.look()
    yield made
    made.close()


@pytest.fixture
def config() -> EngineConfig:
    """A configuration with the three models; the fabric is looked at all the time."""
    return EngineConfig.from_dict({"device_info": rows(), "fabric": MANAGER, "scan_interval": 0.1, "workers": 2,
                                   "node_operations": "ssh"})


@pytest.fixture
def quiet(config: EngineConfig) -> Iterator[tuple[ControllerManager, Bench]]:
    """An engine that neither watches nor works, and its bench: what is put there is what it has seen."""
    made = Bench()
    engine = ControllerManager(made.api.client, made.fabric, config, events=False, metrics=made.metrics)
    begun(engine)
    made.use(engine)
    made.put(objects.node())
    made.look()
    yield engine, made
    engine.stop()


@pytest.fixture
def held(bench: Bench) -> Bench:
    """A node with room, the namespace and the DeviceClass."""
    bench.put(node(), {"apiVersion": "v1", "kind": "Namespace", "metadata": opted_in("default")},
              {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": objects.meta(DRIVER),
               "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}})
    return bench
