# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment's proxy is taken exactly where it is meant, and its password shows nowhere."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import BadKubeconfig
from ansible_collections.composable.infra.plugins.module_utils.kube.proxies import (
    Proxy,
    proxy_for,
    proxy_of_environment,
)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proxy_of_environment("https", "api.test") is None
    monkeypatch.setenv("HTTPS_PROXY", "http://p:1")
    assert proxy_of_environment("https", "api.test") == "http://p:1"
    assert proxy_of_environment("http", "api.test") is None
    monkeypatch.setenv("no_proxy", "api.test")
    assert proxy_of_environment("https", "api.test") is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_loopback_needs_no_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://p:1")
    assert proxy_of_environment("https", host) is None


@pytest.mark.parametrize(
    ("host", "excepted"),
    [("10.1.2.3", True), ("11.0.0.1", False), ("fd00::7", True), ("fe80::1", False), ("api.test", False)],
)
def test_no_proxy_may_name_ranges_of_addresses(host: str, excepted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://p:1")
    monkeypatch.setenv("NO_PROXY", "other.test, 10.0.0.0/8 ,fd00::/16,not/arange")
    assert (proxy_of_environment("https", host) is None) is excepted


def test_the_connections_own_proxy_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://env:1")
    assert proxy_for(Connection("https://api.test")) == Proxy("http", "env", 1)
    assert proxy_for(Connection("https://api.test", proxy_url="https://own")) == Proxy("https", "own", 443)
    assert proxy_for(Connection("https://127.0.0.1")) is None


def test_a_proxy_is_asked_with_its_password_which_no_text_shows() -> None:
    proxy = proxy_for(Connection("https://api.test", proxy_url="http://ann:s%3Acret@[fd00::1]:3128"))
    assert proxy is not None
    assert (proxy.host, proxy.port) == ("fd00::1", 3128)
    assert proxy.header == "Proxy-Authorization: Basic YW5uOnM6Y3JldA==\r\n"
    assert "YW5" not in repr(proxy)


def test_a_bad_proxy_of_the_environment_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://ann:pw@p")
    with pytest.raises(BadKubeconfig, match=r"^environment: proxy-url: must be http://") as raised:
        proxy_for(Connection("https://api.test"))
    assert "pw" not in str(raised.value)
