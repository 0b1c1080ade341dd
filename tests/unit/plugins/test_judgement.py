# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The actions stack_preflight and stack_verify: what they hand to stack_info, and what they make of its answer."""

from __future__ import annotations

import time
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleError

from ansible_collections.composable.infra.plugins.action import stack_preflight, stack_verify
from ansible_collections.composable.infra.plugins.modules import stack_preflight as preflight_module
from ansible_collections.composable.infra.plugins.modules import stack_verify as verify_module
from ansible_collections.composable.infra.plugins.plugin_utils.stack import judgement
from ansible_collections.composable.infra.tests.unit.stack.cases import cluster, host, plan

Json = dict[str, t.Any]


def action(kind: t.Any, args: Json, *answers: Json, asked: list[Json] | None = None) -> t.Any:
    """An action whose module answers with these, the last one for ever."""
    left, heard = list(answers), [] if asked is None else asked

    def execute(**more: t.Any) -> Json:
        assert more["module_name"] == "composable.infra.stack_info"
        heard.append(more["module_args"])
        return left.pop(0) if len(left) > 1 else left[0]

    made = kind.__new__(kind)
    made._task = SimpleNamespace(args=args, async_val=0, check_mode=False, diff=False, environment=[],
                                 action="composable.infra.stack")
    made._load_name = "stack"
    made._connection = SimpleNamespace(transport="local", _shell=SimpleNamespace(tmpdir=None))
    made._play_context, made._execute_module = SimpleNamespace(become=False), execute
    return made


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that were slept; the clock goes with them."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0 + sum(slept))
    return slept


@pytest.fixture
def helm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command helm, and nothing else on PATH."""
    command = tmp_path / "helm"
    command.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return command


def test_preflight_looks_for_helm_on_the_control_node(helm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(**more: t.Any) -> list[str]:
        found = action(stack_preflight.ActionModule, {"plan": plan(**more), "hosts": []}, {"stack": cluster()}).run()
        return [f["level"] for f in found["findings"] if f["check"] == "helm"]

    assert looked() == ["ok"]
    monkeypatch.setenv("PATH", "/nowhere")
    assert looked() == ["stop"]
    assert looked(helm_binary=str(helm)) == ["ok"]


@pytest.mark.usefixtures("helm")
def test_preflight_reads_and_judges() -> None:
    asked: list[Json] = []
    args = {"kubeconfig": "/k", "verify_ssl": False, "plan": plan(), "hosts": [host("a", nouveau=True)]}
    found = action(stack_preflight.ActionModule, args, {"stack": cluster(), "changed": False}, asked=asked).run()
    assert asked == [{"kubeconfig": "/k", "verify_ssl": False}]
    assert (found["changed"], found.get("failed", False)) == (False, False)
    assert set(found["findings"][0]) == {"check", "level", "found", "change"}
    assert [f["level"] for f in found["findings"] if "nouveau" in f["found"]] == ["warn"]
    assert found["report"].startswith("preflight: 0 to fix")


@pytest.mark.usefixtures("helm")
def test_well_planned_cluster_has_nothing_to_mend() -> None:
    args = {"plan": plan(), "hosts": [host("a")]}
    found = action(stack_preflight.ActionModule, args, {"stack": cluster()}).run()
    assert found["stop"] == []


def test_cluster_that_cannot_be_read_is_the_failure_of_the_reader() -> None:
    refused = {"failed": True, "msg": "the API server does not answer", "error": "Unreachable"}
    found = action(stack_verify.ActionModule, {"plan": {}, "wait": True}, refused).run()
    assert {key: found[key] for key in refused} == refused
    assert "findings" not in found


MISSING = {"plan": {"charts": {"nfd": "0.19.0"}}}
THERE = {"stack": {"releases": [{"chart": "nfd", "status": "deployed", "version": "0.19.0"}]}}
EMPTY: Json = {"stack": {"releases": []}}


def test_verify_looks_once_unless_it_is_told_to_wait(pauses: list[float]) -> None:
    found = action(stack_verify.ActionModule, MISSING, EMPTY, THERE).run()
    assert (found["stop"], pauses) == (["no release of nfd is installed: Run the role that installs it"], [])


def test_verify_waits_until_nothing_is_wrong(pauses: list[float]) -> None:
    found = action(stack_verify.ActionModule, {**MISSING, "wait": True}, EMPTY, EMPTY, THERE).run()
    assert (found["stop"], pauses) == ([], [5.0, 5.0])


def test_verify_waits_no_longer_than_it_may(pauses: list[float]) -> None:
    args = {**MISSING, "wait": True, "wait_timeout": 12, "wait_sleep": 5}
    found = action(stack_verify.ActionModule, args, EMPTY).run()
    assert (len(found["stop"]), pauses) == (1, [5.0, 5.0, 2.0])


@pytest.mark.parametrize(("args", "said"), [({}, "missing required arguments: plan"),
                                            ({"plan": {}, "surprise": 1}, "surprise")])
def test_wrong_options(args: Json, said: str) -> None:
    with pytest.raises(AnsibleError, match=said):
        action(stack_preflight.ActionModule, args, {"stack": {}}).run()


def test_options_are_those_of_the_modules() -> None:
    assert stack_preflight.ActionModule.options == preflight_module.SPEC["argument_spec"]
    assert set(verify_module.SPEC["argument_spec"]) - set(judgement.OPTIONS) == {"wait", "wait_timeout", "wait_sleep"}
