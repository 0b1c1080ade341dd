# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubeconfig that is given as a mapping: its secrets are in no result, and its names are."""

from __future__ import annotations

import json
import types
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils import cluster_module
from ansible_collections.composable.infra.plugins.module_utils.inline_secrets import kubeconfig_secrets
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import BadKubeconfig
from ansible_collections.composable.infra.plugins.modules import claim_info, owned_namespace, scale, stack_info
from ansible_collections.composable.infra.tests.unit.plugins.inprocess_support import (
    Action,
)
from ansible_collections.composable.infra.tests.unit.plugins.module_args import patch_module_args

KUBECONFIG: dict[str, t.Any] = {
    "apiVersion": "v1", "kind": "Config", "current-context": "production",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "production", "context": {"cluster": "c", "user": "u"}}],
    "users": [{"name": "u", "user": {"token": "t0p-s3cret", "password": "pw", "username": "ann",
                                     "client-key-data": "a2V5LWtleS1rZXk=",
                                     "exec": {"command": "login", "args": ["get-a-token"], "env": [
                                         {"name": "A", "value": "long-enough"}, {"name": "B", "value": "1"}]}}}]}
SECRETS = {"t0p-s3cret", "pw", "a2V5LWtleS1rZXk=", "get-a-token", "long-enough"}


def test_what_proves_who_somebody_is_counts() -> None:
    assert kubeconfig_secrets(KUBECONFIG) == SECRETS


@pytest.mark.parametrize("given", [None, "/a/path", "a:b", {}, {"users": None}, {"users": "x"}, {"users": [1, {}]},
                                   {"users": [{"user": None}]}, ["x"], 7])
def test_anything_else_has_no_secrets(given: t.Any) -> None:
    assert kubeconfig_secrets(given) == set()


def test_the_text_of_a_kubeconfig_is_one() -> None:
    text = "apiVersion: v1\nkind: Config"
    assert kubeconfig_secrets(text) == {text}


@pytest.mark.parametrize("module", [owned_namespace, stack_info, scale, claim_info], ids=lambda m: m.__name__[-12:])
def test_a_refusal_that_returns_all_arguments_shows_none(
    module: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with patch_module_args({"kubeconfig": KUBECONFIG, "surprise": 1}), pytest.raises(SystemExit):
        module.main()
    said = capsys.readouterr().out
    refusal = json.loads(said)
    assert refusal["failed"]
    # ansible-core 2.21 does not return the arguments of a refused task.
    assert ("production" in said) == ("invocation" in refusal)
    assert [secret for secret in SECRETS - {"pw"} if secret in said] == []


def test_neither_does_work_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"argument_spec": {"name": {"type": "str"}, "kubeconfig": {"type": "raw"}}}
    monkeypatch.setattr(Action, "spec", spec)
    monkeypatch.setattr(Action, "work", lambda task: {"told": task.params})
    args = {"name": "x", "kubeconfig": KUBECONFIG}
    made = Action(types.SimpleNamespace(args=args, async_val=0, environment=[], check_mode=False, diff=False,
                                        action="a"), "local", False)
    said = str(made.run(task_vars={}))
    assert "production" in said
    assert [secret for secret in SECRETS if secret in said] == []


def test_a_mapping_reaches_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    client = cluster_module.cluster({"kubeconfig": {**KUBECONFIG, "users": [{"name": "u", "user": {"token": "t"}}]},
                                  "impersonate_user": "ann"})
    assert client.connection.server == "https://127.0.0.1:1"
    assert client.connection.authorization() == "Bearer t"
    assert client.connection.impersonation.user == "ann"


def test_variables_within_a_path_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMEWHERE", "/of/nobody")
    with pytest.raises(BadKubeconfig, match="/of/nobody/config"):
        cluster_module.cluster({"kubeconfig": "$SOMEWHERE/config"})
