# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy on the way changes nothing but the way, and what fails there was surely not sent."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.options import ConnectionOptions
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import BadKubeconfig, Unreachable
from ansible_collections.composable.infra.tests.integration.kube.api_server import FakeApi, Stream
from ansible_collections.composable.infra.tests.integration.kube.certificates import Certificates
from ansible_collections.composable.infra.tests.integration.kube.conftest import ClientFactory
from ansible_collections.composable.infra.tests.integration.kube.proxy import Proxy

NODE, ALL = "/api/v1/nodes/n0", "/api/v1/nodes"
DONE = {"metadata": {"name": "n0"}}


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    made = Proxy()
    yield made
    made.stop()


@pytest.fixture
def tls_proxy(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy that is spoken to over TLS, with a certificate that the system trusts."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    made = Proxy(certificates)
    yield made
    made.stop()


def ask(client: Client) -> object:
    return client.get(NODES, "n0")


def test_a_proxy_is_used_when_it_is_named(api: FakeApi, connect: ClientFactory, proxy: Proxy) -> None:
    api.on(f"GET {NODE}", DONE)
    client = connect(proxy=proxy.url)
    for _unused in range(3):
        assert ask(client) == DONE
    assert proxy.asked == [f"127.0.0.1:{api.port}"]
    assert "Proxy-Authorization" not in proxy.heads[0]


def test_a_proxy_may_be_named_without_a_scheme(api: FakeApi, connect: ClientFactory, proxy: Proxy) -> None:
    api.on(f"GET {NODE}", DONE)
    assert ask(connect(proxy=f"127.0.0.1:{proxy.port}")) == DONE
    assert len(proxy.asked) == 1


def test_the_proxys_password_goes_to_the_proxy_only(api: FakeApi, connect: ClientFactory, proxy: Proxy) -> None:
    api.on(f"GET {NODE}", DONE)
    ask(connect(token="tok", proxy=proxy.url.replace("://", "://ann:p%40ss@")))
    expected = base64.b64encode(b"ann:p@ss").decode()
    assert f"Proxy-Authorization: Basic {expected}\r\n" in proxy.heads[0]
    assert "tok" not in proxy.heads[0]
    assert "Proxy-Authorization" not in api.requests[0].headers


def test_a_write_is_repeated_when_it_could_not_be_sent(
    api: FakeApi, connect: ClientFactory, proxy: Proxy
) -> None:
    api.on(f"POST {ALL}", DONE)
    proxy.refuse = 2
    assert connect(proxy=proxy.url).create(NODES, DONE) == DONE
    assert len(proxy.asked) == 3
    assert len(api.requests) == 1


def test_a_refusing_proxy_is_named_with_its_answer(api: FakeApi, connect: ClientFactory, proxy: Proxy) -> None:
    proxy.refuse = 99
    with pytest.raises(Unreachable, match=rf"the proxy fails: it answered 502 .*127.0.0.1:{api.port}") as raised:
        connect(proxy=proxy.url).create(NODES, DONE)
    assert not raised.value.sent


def test_a_dead_proxy_was_surely_not_sent(connect: ClientFactory, proxy: Proxy) -> None:
    client = connect(proxy=proxy.url)
    proxy.stop()
    with pytest.raises(Unreachable, match=r"the proxy fails: .*refused") as raised:
        client.create(NODES, DONE)
    assert not raised.value.sent


def test_plain_http_goes_through_a_proxy_by_its_whole_url(proxy: Proxy) -> None:
    api = FakeApi(None)
    try:
        api.on(f"GET /below{NODE}", DONE)
        url = proxy.url.replace("://", "://ann:pw@")
        client = Client(Connection.load(given=ConnectionOptions(host=f"{api.url}/below", proxy=url), environ={}))
        assert ask(client) == DONE
        assert proxy.asked == [f"{api.url}/below{NODE}"]
        assert "Proxy-Authorization: Basic " in proxy.heads[0]
        client.close()
    finally:
        api.stop()


def test_tls_inside_tls(api: FakeApi, connect: ClientFactory, tls_proxy: Proxy) -> None:
    api.on(f"GET {NODE}", DONE)
    large = {"metadata": {"name": "n0", "annotations": {"note": "x" * 200_000}}}
    api.on(f"PATCH {NODE}", large)
    client = connect(proxy=tls_proxy.url)
    assert ask(client) == DONE
    assert client.merge_patch(NODES, "n0", large) == large
    assert api.requests[1].body == large
    assert len(tls_proxy.asked) == 1


def test_a_watch_inside_tls_inside_tls_can_be_ended(
    api: FakeApi, connect: ClientFactory, tls_proxy: Proxy
) -> None:
    event = {"type": "ADDED", "object": {}}
    api.on(f"WATCH {ALL}", Stream().send(event))
    watch = connect(proxy=tls_proxy.url).watch(NODES, "1", silence=600)
    assert next(watch) == event
    left: list[object] = []
    thread = threading.Thread(target=lambda: left.extend(watch))
    thread.start()
    watch.close()
    thread.join(20)
    assert not thread.is_alive()
    assert left == []


def test_a_proxy_that_nobody_trusts(
    connect: ClientFactory, tls_proxy: Proxy, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.stranger))
    with pytest.raises(Unreachable, match=r"the proxy fails: .*certificate") as raised:
        ask(connect(proxy=tls_proxy.url))
    assert not raised.value.sent
    assert tls_proxy.asked == []


@pytest.mark.parametrize("url", ["socks5://ann:pw@p:1", "http://", "http://p:port", "http://ann:pw@p:99999"])
def test_an_unusable_proxy_is_named_without_its_password(connect: ClientFactory, url: str) -> None:
    with pytest.raises(BadKubeconfig, match=r"proxy-url: must be http://host\[:port\] or https://") as raised:
        connect(proxy=url)
    assert "pw" not in str(raised.value)
