# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment's proxy is taken exactly where it is meant, and its password shows nowhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.options import ConnectionOptions
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import BadKubeconfig
from ansible_collections.composable.infra.plugins.module_utils.net.proxy import Proxy


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_the_connections_own_proxy_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://env:1")
    assert Connection("https://api.test").proxy() == Proxy("http", "env", 1)
    assert Connection("https://api.test", proxy_url="https://own").proxy() == Proxy("https", "own", 443)
    assert Connection("https://127.0.0.1").proxy() is None


@pytest.mark.parametrize(("server", "reached"), [("https://api.test", None), ("https://10.1.2.3", None),
                                                 ("https://api.other", Proxy("http", "env", 1))])
def test_what_is_reached_without_one(server: str, reached: Proxy | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option of kubernetes.core, for a given proxy as for that of the environment."""
    monkeypatch.setenv("HTTPS_PROXY", "http://env:1")
    given = ConnectionOptions.of({}, {"K8S_AUTH_HOST": server, "K8S_AUTH_API_KEY": "t",
                                      "K8S_AUTH_NO_PROXY": ".test,10.0.0.0/8"})
    assert Connection.load(given=given).proxy() == reached
    assert Connection.load(given=replace(given, proxy="http://env:1")).proxy() == reached


def test_a_bad_proxy_of_the_environment_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://ann:pw@p")
    with pytest.raises(BadKubeconfig, match=r"^environment: proxy-url: must be http://") as raised:
        Connection("https://api.test").proxy()
    assert "pw" not in str(raised.value)
