# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In whose name requests are made: what kubeconfig and options say becomes headers, and what is no name is refused."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.impersonation import Impersonation
from ansible_collections.composable.infra.plugins.module_utils.kube.client.kubeconfig import Entry
from ansible_collections.composable.infra.plugins.module_utils.kube.client.options import ConnectionOptions
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import BadKubeconfig


def of_user(**values: t.Any) -> Impersonation:
    """What a kubeconfig's user says; ``as_groups`` stands for ``as-groups``, and ``as_`` for ``as``."""
    named = {name.rstrip("_").replace("_", "-"): value for name, value in values.items()}
    return Impersonation.of_user(Entry("file", "users[u].user", ".", named))


def test_nobody_else_is_no_header() -> None:
    assert of_user(token="t").headers() == []
    assert Impersonation().changed(None, None).headers() == []
    assert Impersonation().changed("", []).headers() == []


def test_each_group_and_attribute_is_a_header() -> None:
    found = of_user(as_="ann", as_groups=["a", "b"], as_uid="7", as_user_extra={"acme/Scope": ["x", "y"]})
    assert found.headers() == [
        ("Impersonate-User", "ann"), ("Impersonate-Uid", "7"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"),
        ("Impersonate-Extra-acme%2Fscope", "x"), ("Impersonate-Extra-acme%2Fscope", "y")]


def test_a_name_goes_out_as_utf_8() -> None:
    ((name, value),) = Impersonation("Jürgen").headers()
    assert (name, value.encode("latin-1").decode()) == ("Impersonate-User", "Jürgen")


def test_options_win_over_the_kubeconfig() -> None:
    before = of_user(as_="ann", as_groups=["a"], as_uid="7")
    assert before.changed("bob", None) == Impersonation("bob")
    assert before.changed(None, ["b"]) == Impersonation("ann", ("b",), "7")
    assert before.changed(None, None) == before


@pytest.mark.parametrize(("values", "said"), [
    ({"as_groups": ["a"]}, "users\\[u\\].user.as: is missing"), ({"as_uid": "7"}, "user.as: is missing"),
    ({"as_": 7}, "user.as: must be a string, not int"), ({"as_": "a\r\nX: y"}, "user.as: must be text without line"),
    ({"as_": "a", "as_groups": "b"}, "as-groups: must be a list of texts"),
    ({"as_": "a", "as_groups": [1]}, "as-groups: must be text"),
    ({"as_": "a", "as_user_extra": ["x"]}, "as-user-extra: must be a mapping of lists"),
    ({"as_": "a", "as_user_extra": {"k": "x"}}, "as-user-extra: must be a list of texts"),
])
def test_what_is_no_name_is_named(values: dict[str, t.Any], said: str) -> None:
    with pytest.raises(BadKubeconfig, match=said):
        of_user(**values)


@pytest.mark.parametrize(("options", "said"), [
    ({"impersonate_groups": ["a"]}, "connection.impersonate_user: is missing. impersonate_groups needs it"),
    ({"impersonate_user": "a\nb"}, "impersonate_user: must be text without line breaks"),
    ({"impersonate_user": "a", "impersonate_groups": [""]}, "impersonate_groups: must be text"),
])
def test_bad_options_are_named(options: dict[str, t.Any], said: str) -> None:
    with pytest.raises(BadKubeconfig, match=said):
        Connection.load(given=ConnectionOptions(host="a.test", token="t", **options), environ={})
