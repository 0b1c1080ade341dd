# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules run in this process: arguments in, the printed result out."""

from __future__ import annotations

import json
import os
import types
import typing as t
from collections.abc import Callable

import pytest
from ansible.module_utils.common import warnings

from ansible_collections.composable.infra.plugins.module_utils import cluster_module, fabric_module
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.tests.unit.fabric.desired.fake_manager import A, B, FakeManager, devices
from ansible_collections.composable.infra.tests.unit.plugins.module_args import patch_module_args
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import FakeFabric

Result = dict[str, t.Any]
RunModule = Callable[..., Result]
OPTIONS = {"endpoint": "https://manager.example", "tenant": "00000000-0000-4000-8000-000000000001", "username": "u",
           "password": "not-told", "realm": "r", "client_id": "c", "client_secret": "not-told-either"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options come from nowhere but the test, and so do warnings."""
    # ansible-core keeps them in a list before 2.19, in a dictionary since.
    monkeypatch.setattr(warnings, "_global_warnings", type(warnings._global_warnings)())
    for name in list(os.environ):
        if name.startswith(("COMPOSABLE_", "K8S_AUTH_")) or name == "KUBECONFIG":
            monkeypatch.delenv(name)


@pytest.fixture
def run_module(capsys: pytest.CaptureFixture[str]) -> RunModule:
    """Run a module's ``main`` and return what it prints; ``failed`` is always there."""

    def run(module: types.ModuleType, check: bool = False, **args: t.Any) -> Result:
        with patch_module_args({**args, "_ansible_check_mode": check}), pytest.raises(SystemExit) as ended:
            module.main()
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        assert "not-told" not in printed.out + printed.err
        result: Result = json.loads(printed.out)
        assert bool(result.setdefault("failed", False)) is bool(ended.value.code)
        return result

    return run


@pytest.fixture
def fabric(monkeypatch: pytest.MonkeyPatch) -> FakeFabric:
    """The manager that every module speaks to."""
    made = FakeFabric()

    def connect(config: object) -> FabricManager:
        return made

    monkeypatch.setattr(fabric_module, "connect", connect)
    return made


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeManager:
    """A manager with three machines on two fabrics, that every module speaks to."""
    made = FakeManager.of({"node-0": 1, "node-1": 1, "node-2": 2}, devices(A, 4), devices(B, 2), devices(A, 2, 2))

    def connect(config: object) -> FabricManager:
        return made

    monkeypatch.setattr(fabric_module, "connect", connect)
    return made


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """The API server that every module speaks to."""
    made = FakeApi()

    def cluster(params: object) -> Client:
        return made.client

    monkeypatch.setattr(cluster_module, "cluster", cluster)
    return made
