# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The system's trust store is read only where somebody must be trusted: it takes longer than a request."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import BadConfiguration
from ansible_collections.composable.infra.plugins.module_utils.fabric.http import tls
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.endpoint import Endpoint
from ansible_collections.composable.infra.plugins.module_utils.net import dial
from ansible_collections.composable.infra.plugins.module_utils.net.tls import client_context


def contexts(monkeypatch: pytest.MonkeyPatch, endpoint: str, **more: t.Any) -> int:
    """How many TLS contexts an endpoint makes, for the manager and for a proxy."""
    made = []

    def count(**options: t.Any) -> t.Any:
        made.append(options)
        return client_context(**options)

    for module in (tls, dial):
        monkeypatch.setattr(module, "client_context", count)
    Endpoint(FabricConfig.from_dict({"manager": "nec", "endpoint": endpoint, **more}), endpoint).close()
    return len(made)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_a_plain_endpoint_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert contexts(monkeypatch, "http://cdim.example.com") == 0


def test_a_secure_endpoint_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert contexts(monkeypatch, "https://cdim.example.com") == 1


def test_so_does_a_secure_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "https://proxy.example.com:3128")
    assert contexts(monkeypatch, "http://cdim.example.com") == 1


def test_a_wrong_certificate_is_named_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadConfiguration, match="ca_path"):
        contexts(monkeypatch, "http://cdim.example.com", ca_path="/nowhere/ca.pem")
