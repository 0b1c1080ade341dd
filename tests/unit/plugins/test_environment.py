# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wrong value of an environment variable is refused by the variable's name, the value and what is allowed."""

from __future__ import annotations

import json
import typing as t
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.composable.infra.plugins.filter.with_environment import with_environment
from ansible_collections.composable.infra.plugins.module_utils import cluster_module
from ansible_collections.composable.infra.plugins.module_utils.bodies import fabric_info
from ansible_collections.composable.infra.plugins.module_utils.environment import problem
from ansible_collections.composable.infra.plugins.plugin_utils.inprocess import InProcess
from ansible_collections.composable.infra.tests.unit.plugins.module_args import patch_module_args

CASES = [
    ("COMPOSABLE_READ_TIMEOUT", "soon", "COMPOSABLE_READ_TIMEOUT: 'soon' is not allowed. It must be a number"),
    ("COMPOSABLE_VALIDATE_CERTS", "maybe",
     "COMPOSABLE_VALIDATE_CERTS: 'maybe' is not allowed. It must be true or false"),
    ("COMPOSABLE_AUTH", "ldap",
     "COMPOSABLE_AUTH: 'ldap' is not allowed. Allowed are password_grant, session, basic, none"),
]
LATER = [
    ("COMPOSABLE_MANAGER", "fmm", "COMPOSABLE_MANAGER: 'fmm' is not allowed. Allowed are fm, cm, nec, sunfish"),
    ("COMPOSABLE_TENANT", "x", "COMPOSABLE_TENANT: 'x' is not allowed. "),
    ("COMPOSABLE_READ_TIMEOUT", "-1", "COMPOSABLE_READ_TIMEOUT: -1.0 is not allowed. "),
    ("COMPOSABLE_ENDPOINT", "ftp://a.example", "COMPOSABLE_ENDPOINT: 'ftp://a.example' is not allowed. "),
]
WHERE = {"endpoint": "https://127.0.0.1:1", "tenant": "00000000-0000-4000-8000-000000000001", "username": "u",
         "password": "s3cret", "realm": "r", "client_id": "c", "client_secret": "0ther"}
Json = dict[str, t.Any]


class Action(InProcess):
    """The action plugin of fabric_info without Ansible around it."""

    spec = fabric_info.SPEC
    work = fabric_info.work

    def __init__(self, args: Json) -> None:
        self._task: t.Any = SimpleNamespace(args=args, async_val=0, environment=[], check_mode=False, diff=False,
                                            action="composable.infra.fabric_info")
        shell = SimpleNamespace(tmpdir="/tmp/of-a-task")
        self._connection: t.Any = SimpleNamespace(transport="local", has_native_async=False, _shell=shell)
        self._play_context: t.Any = SimpleNamespace(become=False)


def as_action(given: Json) -> str:
    """Return the message of a task within Ansible's process."""
    return str(Action(given).run()["msg"])


def as_module(given: Json, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the message of a task as a module."""
    with patch_module_args({**given, "_ansible_module_name": "composable.infra.fabric_info"}), \
            pytest.raises(SystemExit):
        fabric_info.main()
    shown = capsys.readouterr().out
    assert "s3cret" not in shown
    return str(json.loads(shown)["msg"])


@pytest.mark.parametrize(("variable", "value", "words"), [*CASES, *LATER])
def test_the_variable_is_named(variable: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch,
                               capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(variable, value)
    given = {name: text for name, text in WHERE.items() if f"COMPOSABLE_{name.upper()}" != variable}
    assert as_action(given).startswith(words)
    assert as_module(given, capsys).startswith(words)


@pytest.mark.parametrize(("variable", "value", "words"), CASES)
def test_the_configuration_of_a_playbook_names_it_too(variable: str, value: str, words: str,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(AnsibleFilterError) as refused:
        with_environment({"fabric": WHERE})
    assert str(refused.value) == words


def test_an_option_that_is_given_is_named_itself(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
                                                 ) -> None:
    """The variable then counts for nothing."""
    monkeypatch.setenv("COMPOSABLE_READ_TIMEOUT", "soon")
    given: Json = {**WHERE, "read_timeout": "late"}
    for message in (as_action(given), as_module(given, capsys)):
        assert message.startswith("argument 'read_timeout' is of type")
    given = {**WHERE, "read_timeout": -2.0}
    assert as_action(given).startswith("read_timeout: -2.0 is not allowed")


def test_variables_of_the_api_server_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K8S_AUTH_VERIFY_SSL", "perhaps")
    options = cluster_module.CLUSTER_OPTIONS
    assert problem(options, ()) == "K8S_AUTH_VERIFY_SSL: 'perhaps' is not allowed. It must be true or false"
    assert problem(options, ("verify_ssl",)) == ""
    monkeypatch.setenv("K8S_AUTH_VALIDATE_CERTS", "no")
    assert problem(options, ()) == ""
