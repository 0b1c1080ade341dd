# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTPS_PROXY and NO_PROXY as curl and Go read them: loopback, address ranges, domains, ports; no password shows."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.net.proxy import Proxy, bypassed, proxy_of_environment

ENDPOINT = "https://fm.example.com:8443"


def test_without_a_variable_there_is_no_proxy() -> None:
    assert proxy_of_environment(ENDPOINT, {}) is None
    assert proxy_of_environment(ENDPOINT, {"HTTP_PROXY": "http://p:1"}) is None


def test_a_plain_address_has_the_proxy_for_plain_addresses() -> None:
    env = {"HTTP_PROXY": "http://p:1", "HTTPS_PROXY": "http://q:2", "NO_PROXY": "direct.example.com:80"}
    assert proxy_of_environment("http://nec.example.com", env) == "http://p:1"
    assert proxy_of_environment("http://direct.example.com", env) is None
    assert proxy_of_environment("http://direct.example.com:8080", env) == "http://p:1"
    assert proxy_of_environment(ENDPOINT, env) == "http://q:2"


def test_both_spellings_count_and_a_scheme_is_added() -> None:
    assert proxy_of_environment(ENDPOINT, {"HTTPS_PROXY": "http://p:3128"}) == "http://p:3128"
    assert proxy_of_environment(ENDPOINT, {"https_proxy": "p:3128", "HTTPS_PROXY": "q:1"}) == "p:3128"
    assert Proxy.parse("p:3128") == Proxy("http", "p", 3128)


def test_no_proxy_is_obeyed_in_both_spellings() -> None:
    for name in ("no_proxy", "NO_PROXY"):
        assert proxy_of_environment(ENDPOINT, {"HTTPS_PROXY": "http://p", name: "other, .example.com"}) is None


@pytest.mark.parametrize(
    ("endpoint", "no_proxy"),
    [
        (ENDPOINT, "*"),
        (ENDPOINT, "fm.example.com"),
        (ENDPOINT, "FM.example.com"),
        (ENDPOINT, "example.com"),
        (ENDPOINT, ".example.com"),
        (ENDPOINT, "*.example.com"),
        (ENDPOINT, "a,,fm.example.com:8443"),
        ("https://10.1.2.3", "10.0.0.0/8"),
        ("https://10.1.2.3", "10.1.2.3"),
        ("https://10.1.2.3", "10.1.2.3:443"),
        ("https://[fd00::1]", "fd00::/8"),
        ("https://[fd00::1]", "fd00::1"),
        ("https://[fd00::1]", "[fd00::1]"),
        ("https://[fd00::1]", "[fd00:0::1]:443"),
        ("https://10.1.2.3", "other.test, 10.0.0.0/8 ,fd00::/16,not/arange"),
        ("https://[fd00::7]", "other.test, 10.0.0.0/8 ,fd00::/16,not/arange"),
        (ENDPOINT, "other.test fm.example.com"),
        ("https://fm.example.com.", "example.com."),
        ("https://localhost:6443", ""),
        ("https://127.0.0.1", ""),
        ("https://127.9.9.9", ""),
        ("http://[::1]:8080", ""),
    ],
)
def test_named_hosts_are_reached_directly(endpoint: str, no_proxy: str) -> None:
    assert bypassed(endpoint, no_proxy)


@pytest.mark.parametrize(
    ("endpoint", "no_proxy"),
    [
        (ENDPOINT, ""),
        (ENDPOINT, "ample.com"),
        (ENDPOINT, "fm.example.com:443"),
        (ENDPOINT, "10.0.0.0/8"),
        ("https://11.1.2.3", "10.0.0.0/8"),
        ("https://11.1.2.3", "10.0.0.0/notabits"),
        ("https://[fe80::1]", "10.0.0.0/8,fd00::/16"),
        ("https://10.1.2.3", "10.1.2.3:6443"),
        ("https://[fd00::1]", "[fd00::1]:6443"),
        ("https://10.1.2.3", "2.3"),
    ],
)
def test_other_hosts_are_reached_through_the_proxy(endpoint: str, no_proxy: str) -> None:
    assert not bypassed(endpoint, no_proxy)


def test_a_proxy_is_asked_with_its_password_which_no_text_shows() -> None:
    proxy = Proxy.parse("http://ann:s%3Acret@[fd00::1]:3128")
    assert (proxy.host, proxy.port) == ("fd00::1", 3128)
    assert proxy.header == "Proxy-Authorization: Basic YW5uOnM6Y3JldA==\r\n"
    assert "YW5" not in repr(proxy)


def test_a_port_of_its_own_is_known() -> None:
    assert Proxy.parse("https://own") == Proxy("https", "own", 443)
    assert Proxy.parse("http://own") == Proxy("http", "own", 80)


@pytest.mark.parametrize("url", ["socks5://ann:pw@p", "socks5://ann:pw@p:1", "http://", "http://ann:pw@p:99999", "http://ann:pw@p:port"])
def test_another_url_is_no_proxy_and_its_password_is_not_shown(url: str) -> None:
    with pytest.raises(ValueError, match="must be http://") as raised:
        Proxy.parse(url)
    assert "pw" not in str(raised.value)
