# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTPS_PROXY and NO_PROXY as curl and Go read them, address ranges included."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.proxies import bypassed, proxy_for

ENDPOINT = "https://fm.example.com:8443"


def test_without_a_variable_there_is_no_proxy() -> None:
    assert proxy_for(ENDPOINT, {}) is None
    assert proxy_for(ENDPOINT, {"HTTP_PROXY": "http://p:1"}) is None


def test_a_plain_address_has_the_proxy_for_plain_addresses() -> None:
    env = {"HTTP_PROXY": "http://p:1", "HTTPS_PROXY": "http://q:2", "NO_PROXY": "direct.example.com:80"}
    assert proxy_for("http://nec.example.com", env) == "http://p:1"
    assert proxy_for("http://direct.example.com", env) is None
    assert proxy_for("http://direct.example.com:8080", env) == "http://p:1"
    assert proxy_for(ENDPOINT, env) == "http://q:2"


def test_both_spellings_count_and_a_scheme_is_added() -> None:
    assert proxy_for(ENDPOINT, {"HTTPS_PROXY": "http://p:3128"}) == "http://p:3128"
    assert proxy_for(ENDPOINT, {"https_proxy": "p:3128", "HTTPS_PROXY": "q:1"}) == "http://p:3128"


def test_no_proxy_is_obeyed_in_both_spellings() -> None:
    for name in ("no_proxy", "NO_PROXY"):
        assert proxy_for(ENDPOINT, {"HTTPS_PROXY": "http://p", name: "other, .example.com"}) is None


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
    ],
)
def test_other_hosts_are_reached_through_the_proxy(endpoint: str, no_proxy: str) -> None:
    assert not bypassed(endpoint, no_proxy)
