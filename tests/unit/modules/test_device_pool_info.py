# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""device_pool_info: it looks, writes nothing in either mode, and says in one sentence why it cannot."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils import cluster_module
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Unreachable
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig, EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot import pools
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.run import NotReady
from ansible_collections.composable.infra.plugins.modules import device_pool_info
from ansible_collections.composable.infra.tests.unit.modules.conftest import Result, RunModule
from ansible_collections.composable.infra.tests.unit.modules.engine_modules_support import (
    CONFIG,
    raise_if,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import rows

POOL: dict[str, t.Any] = {"name": "a100-fabric1", "devices": [{"name": "a100-0", "claim": None}], "published": True}


class FakePools:
    """Reads pools at once; it can do nothing else. ``error`` is raised instead."""

    error: t.ClassVar[Exception | None] = None
    log: t.ClassVar[list[t.Any]] = []

    def __init__(self, client: object, config: EngineConfig, ready_timeout: float) -> None:
        self.log.append(("made", client, len(config.settings.models), ready_timeout))

    def look(self, names: list[str]) -> types.SimpleNamespace:
        self.log.append(("look", names))
        raise_if(self.error)
        return types.SimpleNamespace(as_result=lambda: {"changed": False, "pools": [POOL], "led_by": []})


@pytest.fixture(autouse=True)
def run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the module runs; the cluster is a word."""
    monkeypatch.setattr(pools, "PoolRun", FakePools)
    monkeypatch.setattr(cluster_module, "cluster", lambda params: params["kubeconfig"])
    monkeypatch.setattr(FakePools, "error", None)
    monkeypatch.setattr(FakePools, "log", [])


@pytest.mark.parametrize("check", [False, True])
def test_pools_are_returned_and_nothing_changes(run_module: RunModule, check: bool) -> None:
    found: Result = run_module(device_pool_info, check, config=CONFIG, kubeconfig="k", pools=["a100-fabric1"])
    assert (found["pools"], found.get("changed", False)) == ([POOL], False)
    assert "led_by" not in found
    assert FakePools.log == [("made", "k", len(rows()), 30.0), ("look", ["a100-fabric1"])]


def test_all_pools_are_looked_at_by_default(run_module: RunModule) -> None:
    run_module(device_pool_info, config=CONFIG, kubeconfig="k", ready_timeout=5)
    assert FakePools.log == [("made", "k", len(rows()), 5.0), ("look", [])]


@pytest.mark.parametrize("error", [BadConfig("pools: 'x' is not a pool of this fabric"), NotReady("not within 30 s"),
                                   Unreachable("no answer")], ids=lambda error: type(error).__name__)
def test_what_prevents_it_is_one_sentence(
    run_module: RunModule, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(FakePools, "error", error)
    found = run_module(device_pool_info, config=CONFIG, kubeconfig="k", pools=["x"])
    assert (found["failed"], found["msg"], found["error"]) == (True, str(error), type(error).__name__)


def test_secrets_of_the_configuration_are_in_no_result(run_module: RunModule) -> None:
    assert "not-told" not in str(run_module(device_pool_info, config=CONFIG, kubeconfig="k"))
