# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client beyond its own limit: what waits, what is never sent, and what the limit does not concern."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import LEASES, NODES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.rate_limit import TokenBucket
from ansible_collections.composable.infra.plugins.module_utils.kube.client.transport import Limits
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.lease import Lease
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Unreachable
from ansible_collections.composable.infra.tests.integration.kube.api_server import FakeApi, Reply, Stream, status
from ansible_collections.composable.infra.tests.integration.kube.conftest import ClientFactory

NODE = "/api/v1/nodes/n0"
DONE = {"metadata": {"name": "n0"}}
# Nobody waits: by a clock that stands still one request goes, and the next is due in a second, which is too late.
PATIENCE = Limits(patience=0.5)


@pytest.fixture
def client(connect: ClientFactory) -> Client:
    return connect({"limits": PATIENCE})


@pytest.fixture
def limited(client: Client) -> Client:
    return client.limited(TokenBucket(1, 1, lambda: 0.0))


def test_beyond_the_limit_nothing_is_sent_and_it_is_said_why(api: FakeApi, limited: Client) -> None:
    api.on(f"GET {NODE}", DONE, DONE)
    limited.get(NODES, "n0")
    with pytest.raises(Unreachable, match=r"the limit of 1 requests a second \(kube_api_qps\)") as caught:
        limited.get(NODES, "n0")
    assert not caught.value.sent
    assert len(api.sent(f"GET {NODE}")) == 1


def test_each_try_counts(api: FakeApi, limited: Client) -> None:
    again = status(429)
    api.on(f"GET {NODE}", Reply(again.body, 429, {"Retry-After": "0"}), DONE)
    with pytest.raises(Unreachable, match="the limit"):
        limited.get(NODES, "n0")


def test_one_limit_for_all_that_is_made_of_it(api: FakeApi, limited: Client) -> None:
    api.on(f"GET {NODE}", DONE)
    limited.guarded(lambda: None).get(NODES, "n0")
    with pytest.raises(Unreachable, match="the limit"):
        limited.get(NODES, "n0")


def test_watches_do_not_count(api: FakeApi, limited: Client) -> None:
    api.on(f"GET {NODE}", DONE)
    limited.get(NODES, "n0")
    stream = Stream().send({"type": "ADDED", "object": DONE}).end()
    api.on("WATCH /api/v1/nodes", stream)
    assert [event["type"] for event in limited.watch(NODES, "1")] == ["ADDED"]


def test_lease_is_renewed_whatever_the_engine_asks_for(api: FakeApi, client: Client, limited: Client) -> None:
    """The engine's client is beyond its limit for good; the one that it is made from is not."""
    api.on(f"GET {NODE}", DONE)
    limited.get(NODES, "n0")
    path = LEASES.path("leader", "default")
    api.on(f"GET {path}", status(404, "NotFound", details={"name": "leader"}))
    api.on(f"POST {LEASES.path(namespace='default')}", {"metadata": {"name": "leader"}, "spec": {}})
    lease = Lease(client, "default", "leader", "me")
    assert lease.acquire(1.0)
    with pytest.raises(Unreachable, match="the limit"):
        limited.get(NODES, "n0")
    assert lease.held
    api.on(f"PUT {path}", {"metadata": {"name": "leader"}, "spec": {}})
    lease.release()
