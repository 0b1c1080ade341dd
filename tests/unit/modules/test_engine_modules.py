# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""scale and claim_info: what they hand to the engine's run, and how they return what it says."""

from __future__ import annotations

import typing as t
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.plugins.module_utils import cluster_module, engine_module
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden, Unreachable
from ansible_collections.composable.infra.plugins.module_utils.module_base import TaskContext
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig, EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot import run as oneshot
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.run import NotReady, Outcome
from ansible_collections.composable.infra.plugins.modules import claim_info, scale
from ansible_collections.composable.infra.tests.unit.modules.engine_modules_support import (
    CONFIG,
    raise_if,
)

RunModule = Callable[..., dict[str, t.Any]]
VERDICTS = [WaitReason("a/served", "", 0.0, {"node": "node-0"}), WaitReason("a/waits", "1 x A100", 5.0,
                                                                            {"node": "node-1"}, "direct"),
            WaitReason("b/waits", "a pod that uses it", 6.0, {})]
ACTION = {"action": "SetSize", "node": "node-0", "model": "A100", "before": None, "size": 1}


class FakeRun:
    """A run that answers at once. ``error`` is raised instead."""

    error: t.ClassVar[Exception | None] = None
    log: t.ClassVar[list[tuple[t.Any, ...]]] = []

    def __init__(self, client: object, config: EngineConfig, ready_timeout: float) -> None:
        self.log.append(("made", client, len(config.settings.models), ready_timeout))

    def plan(self) -> Outcome:
        self.log.append(("plan",))
        self._fail()
        return Outcome(True, (ACTION,), tuple(VERDICTS[1:2]), {"before": {"x": 0}, "after": {"x": 1}})

    def carry_out(self, timeout: float) -> Outcome:
        self.log.append(("carry out", timeout))
        self._fail()
        return Outcome(True, (ACTION,), (), {"before": {}, "after": {}}, True, ({"reason": "Attached"},), ("other",))

    def explain(self, until: Callable[[list[WaitReason]], bool], timeout: float) -> tuple[list[WaitReason], list[str]]:
        """One look; the test of the run itself shows that it looks again."""
        self.log.append(("explain", until(VERDICTS), timeout))
        self._fail()
        return VERDICTS, ["a problem"]

    def _fail(self) -> None:
        raise_if(self.error)


@pytest.fixture(autouse=True)
def run(monkeypatch: pytest.MonkeyPatch) -> type[FakeRun]:
    """What the modules run; the cluster is a word."""
    monkeypatch.setattr(oneshot, "Run", FakeRun)
    monkeypatch.setattr(cluster_module, "cluster", lambda params: params["kubeconfig"])
    monkeypatch.setattr(FakeRun, "error", None)
    monkeypatch.setattr(FakeRun, "log", [])
    return FakeRun


def test_former_key_of_the_configuration_is_a_deprecation() -> None:
    said: list[tuple[str, str]] = []
    task = TaskContext({"config": {**CONFIG, "node_hands": "ssh"}}, False,
                       deprecate=lambda text, *, version, collection_name: said.append((text, version)))
    assert engine_module.config(task).node_operations == "ssh"
    assert said == [("config: node_hands is deprecated. Use node_operations.", "2.0.0")]


def test_scale_carries_out(run_module: RunModule) -> None:
    found = run_module(scale, config=CONFIG, kubeconfig="/k", timeout=5)
    assert FakeRun.log == [("made", "/k", 3, 30.0), ("carry out", 5.0)]
    assert (found["changed"], found["settled"], found["led_by"]) == (True, True, ["other"])
    assert found["history"] == [{"reason": "Attached"}]
    assert found["actions"] == [ACTION]


def test_scale_in_check_mode_only_plans(run_module: RunModule) -> None:
    found = run_module(scale, check=True, config=CONFIG)
    assert FakeRun.log[1:] == [("plan",)]
    assert found["verdicts"] == [{"claim": "a/waits", "handover": "direct", "waits_for": "1 x A100", "refused": "",
                                  "since": 5.0, "evidence": {"node": "node-1"}}]
    assert found["diff"] == {"before": {"x": 0}, "after": {"x": 1}}
    assert "history" not in found


def test_configuration_from_a_file(run_module: RunModule, tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    path.write_text(yaml.safe_dump(CONFIG), encoding="utf-8")
    run_module(scale, config_path=str(path), ready_timeout=3)
    assert FakeRun.log[0] == ("made", None, 3, 3.0)


def test_configuration_from_the_environment(run_module: RunModule, tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.yml"
    path.write_text(yaml.safe_dump(CONFIG), encoding="utf-8")
    monkeypatch.setenv("COMPOSABLE_CONFIG_PATH", str(path))
    assert not run_module(claim_info)["failed"]


@pytest.mark.parametrize("module", [scale, claim_info])
@pytest.mark.parametrize(("args", "said"), [
    ({}, "one of the following is required: config, config_path"),
    ({"config": {"a": 1}, "config_path": "/x"}, "parameters are mutually exclusive: config|config_path"),
    ({"config_path": "/does/not/exist"}, "/does/not/exist: cannot be read: No such file or directory"),
    ({"config": {}}, "config: device_info: None is not usable"),
    ({"config": {**CONFIG, "workers": 0}}, "config: workers: 0 is not usable"),
])
def test_bad_configuration(run_module: RunModule, module: t.Any, args: dict[str, t.Any], said: str) -> None:
    found = run_module(module, **args)
    assert found["failed"]
    assert said in found["msg"]
    assert FakeRun.log == []


@pytest.mark.parametrize("error", [
    NotReady("the CDI Manager does not answer"), Forbidden(403, "Forbidden", "claims may not be listed"),
    BadConfig("the API server does not serve composabilityrequests"), Unreachable("the API server does not answer")])
@pytest.mark.parametrize("module", [scale, claim_info])
def test_error_is_one_sentence(run_module: RunModule, module: t.Any, error: Exception) -> None:
    FakeRun.error = error
    found = run_module(module, config=CONFIG)
    assert (found["failed"], found["msg"], found["error"]) == (True, str(error), type(error).__name__)


@pytest.mark.parametrize(("args", "claims"), [
    ({}, ["a/served", "a/waits", "b/waits"]), ({"waiting": True}, ["a/waits", "b/waits"]),
    ({"namespace": "a"}, ["a/served", "a/waits"]), ({"name": "waits"}, ["a/waits", "b/waits"]),
    ({"namespace": "a", "name": "waits"}, ["a/waits"]), ({"namespace": "c"}, []),
    ({"namespace": "a", "name": "served", "waiting": True}, []),
])
def test_claim_info_returns_what_is_asked_for(run_module: RunModule, args: dict[str, t.Any],
                                              claims: list[str]) -> None:
    found = run_module(claim_info, config=CONFIG, **args)
    assert [c["claim"] for c in found["claims"]] == claims
    assert (found.get("changed", False), found["problems"]) == (False, ["a problem"])


def test_claim_info_entry(run_module: RunModule) -> None:
    found = run_module(claim_info, config=CONFIG, namespace="a", waiting=True)
    assert found["claims"] == [{"claim": "a/waits", "handover": "direct", "waits_for": "1 x A100", "refused": "",
                                "since": 5.0, "evidence": {"node": "node-1"}}]


@pytest.mark.parametrize(("args", "content"), [
    ({}, True), ({"wait": True, "namespace": "a", "name": "served"}, True), ({"wait": True, "namespace": "c"}, True),
    ({"wait": True}, False), ({"wait": True, "waiting": True}, False), ({"wait": True, "name": "nobody"}, False),
])
def test_claim_info_waits_for_what_was_asked_for(run_module: RunModule, args: dict[str, t.Any], content: bool) -> None:
    found = run_module(claim_info, config=CONFIG, wait_timeout=7, **args)
    assert FakeRun.log[1:] == [("explain", content, 7.0)]
    assert found["failed"] is not content


def test_claim_info_says_what_it_waited_for_in_vain(run_module: RunModule) -> None:
    found = run_module(claim_info, config=CONFIG, wait=True, wait_timeout=7)
    assert found["msg"] == "after 7 s a/waits waits for 1 x A100; b/waits waits for a pod that uses it"
    assert ([c["claim"] for c in found["claims"]], found["error"]) == (["a/served", "a/waits", "b/waits"], "NotReached")
    missing = run_module(claim_info, config=CONFIG, wait=True, name="nobody", namespace="a")
    assert missing["msg"] == "after 300 s there is no ResourceClaim nobody in namespace a"


def test_inline_secrets_are_in_no_result(run_module: RunModule) -> None:
    FakeRun.error = NotReady("rejected: not-told and not-told-either")
    assert "not-told" not in run_module(scale, config=CONFIG)["msg"]


@pytest.mark.parametrize("bad", [{"config_path": "/x"}, {"timeout": "soon"}, {"surprise": 1}],
                         ids=lambda b: next(iter(b)))
def test_inline_secrets_are_in_no_refusal_of_the_arguments(run_module: RunModule, bad: dict[str, t.Any]) -> None:
    """The runner looks for secrets in everything that is printed."""
    assert run_module(scale, config=CONFIG, **bad)["failed"]
