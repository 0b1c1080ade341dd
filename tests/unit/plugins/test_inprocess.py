# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shell of work within Ansible's process: when it is used, how arguments are judged, and that secrets stay in."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.composable.infra.plugins.module_utils.module_base import TaskContext
from ansible_collections.composable.infra.plugins.plugin_utils.engine_inprocess import EngineInProcess
from ansible_collections.composable.infra.tests.unit.plugins.inprocess_support import (
    SPEC,
    Action,
    Result,
)
from ansible_collections.composable.infra.tests.unit.plugins.module_args import patch_module_args


class EngineAction(EngineInProcess, Action):
    """The same of a module that takes the engine's configuration."""

    spec: t.ClassVar[Result] = {"argument_spec": {"config": {"type": "dict"}, "config_path": {"type": "path"},
                                                  "name": {"type": "str"}}}


def action(args: Result | None = None, *, transport: str = "local", become: bool = False, **task: t.Any) -> Action:
    found = {"args": args or {"name": "x"}, "async_val": 0, "environment": [], "check_mode": False, "diff": False,
             "action": "composable.infra.echo", **task}
    return Action(SimpleNamespace(**found), transport, become)


@pytest.mark.parametrize(("more", "here"), [
    ({}, True), ({"transport": "ssh"}, False), ({"become": True}, False), ({"async_val": 30}, False),
    ({"environment": [{"COMPOSABLE_TENANT": "x"}]}, False), ({"environment": [{}, None]}, True),
    ({"transport": "ansible.netcommon.network_cli"}, False),
])
def test_process_of_its_own_only_where_it_is_needed(more: Result, here: bool) -> None:
    made = action(**more)
    found = made.run(task_vars={})
    assert ("told" in found, made.modules) == ((True, []) if here else (False, [bool(more.get("async_val"))]))


@pytest.mark.parametrize(("manager", "module"), [
    ("acme.toy.toy", "acme.toy.echo"), ("fm", "composable.infra.echo"), (None, "composable.infra.echo"),
])
def test_a_process_of_its_own_is_a_module_that_packs_the_driver(manager: str | None, module: str) -> None:
    made = action({"name": "x", "manager": manager}, transport="ssh")
    assert made.run()["as"] == "module"
    assert made.names == [module]


def test_without_that_module_the_task_is_refused() -> None:
    made = action({"name": "x", "manager": "acme.other.toy"}, become=True)
    assert made.run()["msg"] == (
        "manager: 'acme.other.toy' is not allowed, since the task runs on another host, as another user, with an "
        "environment or in the background, so it needs the module acme.other.echo, which is not installed")
    assert made.names == []


@pytest.mark.parametrize(("args", "here"), [
    ({"config": {"fabric": {"manager": "acme.toy.toy"}}}, True), ({"config": {"fabric": {"manager": "fm"}}}, False),
    ({"config": {"fabric": None}}, False), ({"config": "text"}, False), ({"config_path": "EXTERNAL"}, True),
    ({"config_path": "ABSENT"}, False), ({}, False),
])
def test_the_engine_works_within_ansible_for_a_driver_of_others_only(args: Result, here: bool, tmp_path: Path,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COMPOSABLE_CONFIG_PATH", raising=False)
    (tmp_path / "EXTERNAL").write_text("fabric: {manager: acme.toy.toy}\n", encoding="utf-8")
    if "config_path" in args:
        args = {"config_path": str(tmp_path / args["config_path"])}
    made = EngineAction(SimpleNamespace(**{**vars(action()._task), "args": args}), "local", False)
    assert made._needs_a_process({}) is not here


def test_secrets_of_a_configuration_are_in_no_result() -> None:
    config = {"fabric": {"manager": "acme.toy.toy", "password": "hunter2hunter2"}}
    made = EngineAction(SimpleNamespace(**{**vars(action()._task), "args": {"config": config}}), "local", False)
    found = made.run()
    assert found["told"]
    assert "hunter2" not in str(found)


def test_arguments_get_their_types_and_defaults() -> None:
    assert action({"name": "x", "count": "3"}).run()["told"] == [{"name": "x", "count": 3, "password": None}]


@pytest.mark.parametrize(("args", "said"), [
    ({"count": "many", "name": "x"}, "unable to convert to int"),
    ({"name": "x", "surprise": 1}, "surprise"), ({"count": 2}, "one of the following is required: name, password"),
])
def test_bad_arguments_are_a_failure(args: Result, said: str) -> None:
    found = action(args).run()
    assert found["failed"]
    assert said in found["msg"]


@pytest.mark.parametrize("args", [
    {"name": "x", "surprise": 1}, {"surprise": 1, "another": 2}, {"name": "x", "count": "many"}, {"count": 2},
    {"count": "many", "name": "x", "surprise": 1},
])
def test_bad_arguments_are_refused_in_the_words_of_a_module(args: Result, capsys: pytest.CaptureFixture[str]) -> None:
    named = {**args, "_ansible_module_name": "composable.infra.echo"}
    with patch_module_args(named), pytest.raises(SystemExit):
        AnsibleModule(**SPEC)
    assert action(args).run()["msg"] == json.loads(capsys.readouterr().out)["msg"]


def test_check_mode_reaches_the_work() -> None:
    assert [action(check_mode=c).run()["changed"] for c in (True, False)] == [False, True]


def test_error_is_one_sentence_without_the_secret() -> None:
    found = action({"name": "refuse", "password": "hunter2hunter2"}).run()
    assert (found["failed"], found["error"], found["changed"]) == (True, "Refused", False)
    assert found["msg"].startswith("no: ")
    assert "hunter2" not in str(found)


def test_secret_is_in_no_result() -> None:
    assert "hunter2" not in str(action({"password": "hunter2hunter2"}).run())


def test_mistake_in_our_code_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(module: TaskContext) -> Result:
        raise ZeroDivisionError

    monkeypatch.setattr(Action, "work", broken)
    with pytest.raises(ZeroDivisionError):
        action().run()
