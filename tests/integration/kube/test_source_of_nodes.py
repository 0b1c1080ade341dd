# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event source of orders for nodes with its real watches, on a scripted API server."""

from __future__ import annotations

import asyncio
import typing as t

import pytest

from ansible_collections.composable.infra.extensions.eda.plugins.event_source import nodes
from ansible_collections.composable.infra.tests.integration.kube.api_server import WAIT, FakeApi, Stream, status
from ansible_collections.composable.infra.tests.integration.kube.certificates import Certificates
from ansible_collections.composable.infra.tests.unit.eda.nodes_support import (
    device_class,
    node,
    pod,
)

Json = dict[str, t.Any]
CLUSTER = {"/apis/resource.k8s.io/v1/deviceclasses": device_class("gpu.nvidia.com", "nvidia.com/gpu"),
           "/api/v1/pods": pod("train"), "/api/v1/nodes": node("node-0", nodes.CANDIDATE)}


async def first(count: int, args: Json) -> list[Json]:
    """The first events of the source, which is cancelled then as ansible-rulebook does it."""
    queue: asyncio.Queue[Json] = asyncio.Queue()
    task = asyncio.create_task(nodes.main(queue, args))
    found = [await asyncio.wait_for(queue.get(), WAIT) for _unused in range(count)]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return found


def test_what_waits_already_is_told_and_no_more_is_read_than_it_needs(api: FakeApi, certificates: Certificates) -> None:
    for path, raw in CLUSTER.items():
        listed = {**raw, "metadata": {**raw["metadata"], "resourceVersion": "1"}}
        api.on(f"GET {path}", {"items": [listed], "metadata": {"resourceVersion": "5"}})
        api.on(f"WATCH {path}", status(422, "Invalid"), Stream())  # no streamed lists
    events = asyncio.run(first(2, {
        "host": api.url, "ca_cert": str(certificates.ca), "api_key": "secret", "unschedulable_after": 0,
        "unneeded_after": 0, "node_selector": "pool=gpu"}))
    assert [told[0]["name"] for event in events for found in event.values() for told in found.values()] == [
        "train", "node-0"]
    selectors = {path: {key: value for key, value in api.sent(f"GET {path}")[0].query.items() if "Selector" in key}
                 for path in CLUSTER}
    assert selectors == {"/apis/resource.k8s.io/v1/deviceclasses": {},
                         "/api/v1/pods": {"fieldSelector": "spec.nodeName="},
                         "/api/v1/nodes": {"labelSelector": "pool=gpu"}}
