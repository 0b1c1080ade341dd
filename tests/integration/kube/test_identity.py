# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""We know the server, the server knows us, and rotated credentials are picked up; no secret in any message."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.options import ConnectionOptions
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Unauthorized, Unreachable
from ansible_collections.composable.infra.tests.integration.kube.api_server import FakeApi, Reply, status
from ansible_collections.composable.infra.tests.integration.kube.certificates import (
    INNER_NAME,
    Certificates,
)
from ansible_collections.composable.infra.tests.integration.kube.conftest import ClientFactory

NODE, ALL = "/api/v1/nodes/n0", "/api/v1/nodes"
DONE = {"metadata": {"name": "n0"}}


def ask(client: Client) -> object:
    return client.get(NODES, "n0")


def test_a_strange_authority_is_refused(
    api: FakeApi, connect: ClientFactory, certificates: Certificates
) -> None:
    client = connect(ca_file=str(certificates.stranger))
    with pytest.raises(Unreachable, match=rf"certificate of {api.url} is not trusted") as raised:
        ask(client)
    assert "certificate-authority" in raised.value.message
    assert not raised.value.sent
    assert raised.value.permanent
    assert api.requests == []


def test_verification_can_be_switched_off(
    api: FakeApi, connect: ClientFactory, certificates: Certificates
) -> None:
    api.on(f"GET {NODE}", DONE)
    assert ask(connect(ca_file=str(certificates.stranger), validate_certs=False)) == DONE


def kubeconfig(api: FakeApi, certificates: Certificates, **cluster: object) -> dict[str, object]:
    base = {"server": api.url, "certificate-authority": str(certificates.ca)}
    return {
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": base | cluster}],
        "users": [{"name": "u", "user": {"token": "tok"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }


def test_the_servers_name_can_be_given(
    api: FakeApi, connect: ClientFactory, certificates: Certificates
) -> None:
    api.on(f"GET {NODE}", DONE)
    plain = {"host": None, "ca_file": None}
    named = kubeconfig(api, certificates, **{"tls-server-name": INNER_NAME})
    assert ask(connect(kubeconfig=named, **plain)) == DONE
    wrong = kubeconfig(api, certificates, **{"tls-server-name": "wrong.test"})
    with pytest.raises(Unreachable, match="is not trusted"):
        ask(connect(kubeconfig=wrong, **plain))


def test_a_client_certificate_says_who_we_are(
    api: FakeApi, connect: ClientFactory, certificates: Certificates
) -> None:
    api.on(f"GET {NODE}", DONE)
    ask(connect(client_cert=str(certificates.client), client_key=str(certificates.client_key)))
    assert api.requests[0].user == "ann"


def test_a_token_is_sent_with_each_request(api: FakeApi, connect: ClientFactory) -> None:
    api.on(f"GET {NODE}", DONE)
    client = connect(token="tok")
    ask(client)
    ask(client)
    assert [request.headers["Authorization"] for request in api.requests] == ["Bearer tok"] * 2


def test_refused_credentials_are_said_without_showing_them(api: FakeApi, connect: ClientFactory) -> None:
    api.on(f"GET {NODE}", status(401, "Unauthorized"))
    with pytest.raises(Unauthorized, match=r"refuses the credentials") as raised:
        ask(connect(token="s3cr3t"))
    assert "s3cr3t" not in str(raised.value)
    assert len(api.requests) == 1


def test_a_rotated_token_is_read_and_the_request_repeated(
    api: FakeApi, connect: ClientFactory, token_file: Path
) -> None:
    api.on(f"POST {ALL}", DONE, status(401, "Unauthorized"), DONE)
    client = connect(token_file=str(token_file))
    client.create(NODES, DONE)
    token_file.write_text("token-2", encoding="ascii")
    assert client.create(NODES, DONE) == DONE
    tokens = [request.headers["Authorization"] for request in api.requests]
    assert tokens == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


def test_a_token_that_did_not_change_is_not_tried_again(
    api: FakeApi, connect: ClientFactory, token_file: Path
) -> None:
    api.on(f"GET {NODE}", status(401, "Unauthorized"))
    with pytest.raises(Unauthorized):
        ask(connect(token_file=str(token_file)))
    assert len(api.requests) == 1


def test_a_watch_picks_up_a_rotated_token_too(
    api: FakeApi, connect: ClientFactory, token_file: Path
) -> None:
    event = b'{"type": "ADDED", "object": {}}\n'
    api.on(f"WATCH {ALL}", status(401, "Unauthorized"), Reply(event))
    client = connect(token_file=str(token_file))
    token_file.write_text("token-2", encoding="ascii")
    assert list(client.watch(NODES, "1")) == [{"type": "ADDED", "object": {}}]


def named(api: FakeApi, name: str) -> list[str]:
    """Values of a header in the first request, in their order."""
    return [value for header, value in api.requests[0].header_lines if header == name]


def test_each_group_of_an_impersonation_is_a_header(api: FakeApi, connect: ClientFactory) -> None:
    """The API server does not split a header at commas."""
    api.on(f"GET {NODE}", DONE)
    ask(connect(token="tok", impersonate_user="ann", impersonate_groups=["a", "b"]))
    assert named(api, "Impersonate-User") == ["ann"]
    assert named(api, "Impersonate-Group") == ["a", "b"]


def test_a_kubeconfig_may_say_in_whose_name(
    api: FakeApi, connect: ClientFactory, certificates: Certificates
) -> None:
    """As client-go has it; with our own rights instead the user could do more than he wanted."""
    api.on(f"GET {NODE}", DONE)
    config: t.Any = kubeconfig(api, certificates)
    config["users"][0]["user"] |= {"as": "ann", "as-groups": ["a"], "as-uid": "7",
                                   "as-user-extra": {"example.com/Scopes": ["x", "y"]}}
    ask(connect(kubeconfig=config, host=None, ca_file=None))
    assert (named(api, "Impersonate-User"), named(api, "Impersonate-Uid")) == (["ann"], ["7"])
    assert named(api, "Impersonate-Extra-example.com%2Fscopes") == ["x", "y"]


def test_plain_http_is_possible() -> None:
    api = FakeApi(None)
    try:
        api.on(f"GET {NODE}", DONE)
        client = Client(Connection.load(given=ConnectionOptions(host=api.url), environ={}))
        assert ask(client) == DONE
        client.close()
    finally:
        api.stop()
