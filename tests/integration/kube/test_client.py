# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each verb sends what the Kubernetes API expects, and lists are complete however they are paged."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    NODES,
    PODS,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import (
    ApiError,
    Conflict,
    Gone,
    NotFound,
    NotServed,
)
from ansible_collections.composable.infra.tests.integration.kube.api_server import (
    FakeApi,
    Reply,
    Request,
    status,
)

NODE = "/api/v1/nodes/n0"
CLAIM = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c"
DONE = {"metadata": {"name": "n0", "resourceVersion": "5"}}


def only(api: FakeApi) -> Request:
    [request] = api.requests
    return request


def test_get(api: FakeApi, client: Client) -> None:
    api.on(f"GET {NODE}", DONE)
    assert client.get(NODES, "n0") == DONE
    assert only(api).headers["User-Agent"] == "composable.infra"
    assert only(api).headers["Accept"] == "application/json"


def test_get_a_subresource(api: FakeApi, client: Client) -> None:
    api.on(f"GET {CLAIM}/status", DONE)
    assert client.get(CLAIMS, "c", "ns", "status") == DONE


def test_create(api: FakeApi, client: Client) -> None:
    api.on("POST /api/v1/namespaces/ns/pods", DONE)
    assert client.create(PODS, {"metadata": {"name": "p"}}, "ns") == DONE
    assert only(api).body == {"metadata": {"name": "p"}}
    assert only(api).headers["Content-Type"] == "application/json"
    assert only(api).query == {}


def test_create_finds_the_namespace_in_the_body_and_can_be_dry(api: FakeApi, client: Client) -> None:
    api.on("POST /api/v1/namespaces/own/pods", DONE)
    client.create(PODS, {"metadata": {"name": "p", "namespace": "own"}}, dry_run=True)
    assert only(api).query == {"dryRun": "All"}


def test_replace(api: FakeApi, client: Client) -> None:
    api.on(f"PUT {CLAIM}/status", DONE)
    client.replace(CLAIMS, "c", {"metadata": {"namespace": "ns"}}, subresource="status")
    assert only(api).headers["Content-Type"] == "application/json"


def test_merge_patch(api: FakeApi, client: Client) -> None:
    api.on(f"PATCH {NODE}", DONE)
    client.merge_patch(NODES, "n0", {"metadata": {"labels": {"a": None}}})
    assert only(api).headers["Content-Type"] == "application/merge-patch+json"
    assert only(api).body == {"metadata": {"labels": {"a": None}}}


def test_json_patch(api: FakeApi, client: Client) -> None:
    api.on(f"PATCH {NODE}", DONE)
    client.json_patch(NODES, "n0", [{"op": "remove", "path": "/spec/x"}])
    assert only(api).headers["Content-Type"] == "application/json-patch+json"
    assert only(api).body == [{"op": "remove", "path": "/spec/x"}]


def test_strategic_patch(api: FakeApi, client: Client) -> None:
    api.on("PATCH /api/v1/namespaces/ns/pods/p", DONE)
    body = {"spec": {"schedulingGates": [{"$patch": "delete", "name": "composable.infra/devices"}]}}
    assert client.strategic_patch(PODS, "p", body, "ns") == DONE
    assert only(api).headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert only(api).body == body


def test_apply(api: FakeApi, client: Client) -> None:
    api.on(f"PATCH {CLAIM}/status", DONE)
    client.apply(CLAIMS, "c", {"status": {}}, "ns", "status", field_manager="composable.infra")
    assert only(api).headers["Content-Type"] == "application/apply-patch+yaml"
    assert only(api).query == {"fieldManager": "composable.infra", "force": "true"}


def test_delete(api: FakeApi, client: Client) -> None:
    api.on(f"DELETE {NODE}", {"kind": "Status", "status": "Success"})
    assert client.delete(NODES, "n0") is None
    assert only(api).body is None
    client.delete(NODES, "n0", precondition_uid="u-1")
    assert api.requests[1].body == {"preconditions": {"uid": "u-1"}}


def test_delete_of_an_object_with_finalizers_tells_the_object(api: FakeApi, client: Client) -> None:
    left = {"kind": "Node", "metadata": {"name": "n0", "deletionTimestamp": "2026-01-01T00:00:00Z",
                                         "finalizers": ["x"]}}
    api.on(f"DELETE {NODE}", left)
    assert client.delete(NODES, "n0") == left


@pytest.mark.parametrize(
    ("code", "reason", "kind"), [(404, "NotFound", NotFound), (409, "Conflict", Conflict)]
)
def test_delete_raises(
    api: FakeApi, client: Client, code: int, reason: str, kind: type[ApiError]
) -> None:
    api.on(f"DELETE {NODE}", status(code, reason, details={"name": "n0"}))
    with pytest.raises(kind, match="says the server"):
        client.delete(NODES, "n0")


def page(names: str, more: str = "", version: str = "90") -> dict[str, Any]:
    meta = {"resourceVersion": version} | ({"continue": more} if more else {})
    return {"kind": "NodeList", "items": [{"metadata": {"name": name}} for name in names], "metadata": meta}


def test_a_list_follows_its_pages(api: FakeApi, client: Client) -> None:
    api.on("GET /api/v1/nodes", page("ab", "next-1"), page("c", "next 2&x"), page("d"))
    listed = client.list(NODES, label_selector="gpu in (a,b)", field_selector="x=y", limit=2)
    assert [item["metadata"]["name"] for item in listed.items] == list("abcd")
    assert listed.resource_version == "90"
    base = {"labelSelector": "gpu in (a,b)", "fieldSelector": "x=y", "limit": "2"}
    expected = [base, base | {"continue": "next-1"}, base | {"continue": "next 2&x"}]
    assert [request.query for request in api.requests] == expected


def test_listed_items_say_what_they_are(api: FakeApi, client: Client) -> None:
    api.on("GET /api/v1/nodes", page("a"))
    assert client.list(NODES).items == [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}]


def test_a_list_keeps_of_its_items_what_the_caller_wants(api: FakeApi, client: Client) -> None:
    api.on("GET /api/v1/nodes", page("ab", "next"), page("c"))
    listed = client.list(NODES, limit=2, trim=lambda item: {"is": f"{item['kind']} {item['metadata']['name']}"})
    assert listed.items == [{"is": f"Node {name}"} for name in "abc"]


def test_an_empty_list(api: FakeApi, client: Client) -> None:
    api.on("GET /api/v1/namespaces/ns/pods", {"items": None, "metadata": {"resourceVersion": "7"}})
    listed = client.list(PODS, "ns")
    assert (listed.items, listed.resource_version) == ([], "7")


def test_an_expired_page_begins_again_without_pages(api: FakeApi, client: Client) -> None:
    api.on("GET /api/v1/nodes", page("ab", "next"), status(410, "Expired"), page("abc", version="99"))
    listed = client.list(NODES, limit=2)
    assert [item["metadata"]["name"] for item in listed.items] == list("abc")
    assert listed.resource_version == "99"
    assert api.requests[-1].query == {}


def test_a_page_of_a_version_that_a_lagging_server_has_not_seen_begins_again(api: FakeApi, client: Client) -> None:
    """The API server waits three seconds for its watch cache to reach the token's version, then refuses."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    lagging = status(504, "Timeout", details={"causes": [cause], "retryAfterSeconds": 1},
                     message="Timeout: Too large resource version: 30936, current: 30819")
    api.on("GET /api/v1/nodes", page("ab", "next"), lagging, page("abc", version="99"))
    listed = client.list(NODES, limit=2)
    assert [item["metadata"]["name"] for item in listed.items] == list("abc")
    assert [request.query for request in api.requests[1:]] == [{"limit": "2", "continue": "next"}, {}]


def test_a_list_that_stays_expired_raises(api: FakeApi, client: Client) -> None:
    api.on("GET /api/v1/nodes", status(410, "Expired"))
    with pytest.raises(Gone):
        client.list(NODES)
    assert len(api.requests) == 2


def test_a_missing_crd_is_said_in_a_sentence(client: Client) -> None:
    with pytest.raises(NotServed, match=r"composabilityrequests: .*CRD installed"):
        client.list(COMPOSABILITY_REQUESTS)


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b'{"cut": ', b""])
def test_an_answer_that_is_no_object_is_an_error(api: FakeApi, client: Client, body: bytes) -> None:
    api.on(f"GET {NODE}", Reply(body))
    with pytest.raises(ApiError, match="not a JSON object"):
        client.get(NODES, "n0")


def test_managed_fields_are_left_out_of_what_the_server_says(api: FakeApi, client: Client) -> None:
    managed = [{"manager": "x", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}]
    node = {"metadata": {"managedFields": managed, "name": "n0"}}
    raw = json.dumps(node, separators=(",", ":")).encode()
    api.on(f"GET {NODE}", Reply(raw))
    api.on("GET /api/v1/nodes", Reply(b'{"items":[%s,%s],"metadata":{}}' % (raw, raw)))
    assert client.get(NODES, "n0") == {"metadata": {"name": "n0"}}
    assert client.get_whole(NODES, "n0") == node
    assert [item["metadata"] for item in client.list(NODES).items] == [{"name": "n0"}] * 2


def test_plain_text(api: FakeApi, client: Client) -> None:
    api.on("GET /readyz", Reply(b"ok"))
    assert client.text("/readyz") == "ok"


def test_a_server_below_a_path(api: FakeApi, connect: Any) -> None:
    api.on("GET /k8s/cluster-1/api/v1/nodes/n0", DONE)
    assert connect(host=f"{api.url}/k8s/cluster-1/").get(NODES, "n0") == DONE


def test_many_threads_at_once(api: FakeApi, client: Client) -> None:
    for number in range(64):
        api.on(f"GET /api/v1/nodes/n{number}", {"metadata": {"name": f"n{number}"}})
    wrong: list[str] = []

    def ask(number: int) -> None:
        for _unused in range(5):
            answer = client.get(NODES, f"n{number}")["metadata"]["name"]
            if answer != f"n{number}":
                wrong.append(answer)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(api.requests) == 320
