# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup that preflight asks: a login that works, one that is refused, and a manager that nobody reaches."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator, simple_spec
from ansible_collections.composable.infra.plugins.lookup.fabric_login import login

SECRET = ("username", "password", "realm", "client_id", "client_secret")
Options = dict[str, t.Any]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Options]:
    """The options of a connection to an emulated manager with two machines."""
    with Emulator.run(simple_spec(["node-0", "node-1"], {"A100 40G": 1}), tmp_path_factory.mktemp("login")) as emulator:
        yield emulator.fabric_config()


def split(options: Options) -> tuple[Options, Options]:
    """A configuration as in a ConfigMap, and the content of the Secret."""
    secret = {name: options[name] for name in SECRET if name in options}
    secret["certificate"] = Path(options["ca_path"]).read_text(encoding="utf-8")
    rest = {name: value for name, value in options.items() if name not in (*SECRET, "ca_path")}
    return {**rest, "credentials_dir": "/etc/composable-infra/credentials"}, {**secret, "another": "file"}


def test_login_that_works(options: Options) -> None:
    found = login(*split(options))
    assert found == {"problem": "", "reached": True, "said": f"{options['endpoint']} has 2 machines"}


def test_refused_login_is_told_without_the_secret(options: Options) -> None:
    fabric, secret = split(options)
    found = login(fabric, {**secret, "password": "not-this-one"})
    assert found["reached"]
    assert found["problem"]
    assert "not-this-one" not in str(found)


def test_missing_credential_is_named(options: Options) -> None:
    fabric, secret = split(options)
    del secret["password"]
    assert login(fabric, secret) == {
        "problem": "password is not set. It is required for manager fm with auth password_grant", "reached": True,
        "said": ""}


def test_manager_that_nobody_reaches(options: Options) -> None:
    fabric, secret = split(options)
    found = login({**fabric, "endpoint": "https://127.0.0.1:1", "connect_timeout": 1}, secret)
    assert (found["reached"], bool(found["problem"])) == (False, True)
