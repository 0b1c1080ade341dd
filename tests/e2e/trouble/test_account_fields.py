# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each of the six accounts tries each field of each kind, by create, update, patch, apply and subresource.

Nothing is stored: all are dry runs, which RBAC and the admission policies judge as any request. The administrator tries
the same, so that a refusal is about the account. What was allowed is the table of docs/guides/permissions.md.
"""

from __future__ import annotations

import copy
import os
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ansible_collections.composable.infra.lab.control_plane.bootstrap import DEPLOY, documents
from ansible_collections.composable.infra.lab.hardware.agent_identity import agent_kubeconfig
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    NODES,
    PODS,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden, Invalid, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

Json = dict[str, t.Any]
PAGE = ROOT / "docs/guides/permissions.md"
BEGIN, END = "<!-- account fields begin -->\n", "<!-- account fields end -->\n"
NAMESPACE, NODE = "composable-infra", "node-0"
ACCOUNTS = ("publisher", "scaler", "operator", "agent", "autoscaler", "gate-reaper")
KINDS = (COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES, NODES, PODS, CLAIMS)
GHOST = {"apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "00000000-0000-0000-0000-000000000000"}
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
DRY: Json = {"dryRun": "All"}
FORCE: Json = {COMPOSABILITY_REQUESTS.kind: {"resource": {"force_detach": True}},
               COMPOSABLE_RESOURCES.kind: {"force_detach": True}}
STATUS: Json = {NODES.kind: {"phase": "Running"}, PODS.kind: {"message": "x"},
                COMPOSABILITY_REQUESTS.kind: {"state": "Running"}, COMPOSABLE_RESOURCES.kind: {"state": "Online"}}


@dataclass(frozen=True)
class Cluster:
    """``of``: a client for each account; ``objects``: one of each kind, by its kind."""

    admin: Client
    of: dict[str, Client]
    objects: dict[str, Json]


@pytest.fixture(scope="module")
def cluster(stage_factory: StageFactory) -> Iterator[Cluster]:
    stage = stage_factory(nodes=1, hands="none")
    lab = stage.lab
    admin = Client(Connection.load(str(lab.kubeconfig)))
    for folder in ("reaper", "autoscaler"):
        for document in (one for path in sorted((DEPLOY / folder).glob("*.yaml")) for one in documents(path)):
            lab.api.apply(document)
    paths = {name: lab.service_account_kubeconfig(NAMESPACE, f"composable-infra-{name}")
             for name in ACCOUNTS if name != "agent"}
    paths["agent"] = agent_kubeconfig(lab.api, lab.state_dir, lab.ca, NODE)
    clients = {name: Client(Connection.load(str(path))) for name, path in paths.items()}
    yield Cluster(admin, clients, {kind.kind: admin.get(kind, NODE, None) if kind is NODES else admin.create(kind, body)
                                   for kind, body in zip(KINDS, bodies("kept"), strict=True)})
    for client in (admin, *clients.values()):
        client.close()


def bodies(name: str) -> list[Json]:
    """Objects of the kinds, such as the accounts' owners make them."""
    request = cohdi.request_body(name, NODE, "A100", 0)
    resource = cohdi.resource_body(name, "kept", NODE, "A100", "{}")
    container = {"name": "c", "image": "example.com/a:1"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
           "spec": {"containers": [container], "schedulingGates": [{"name": "example.com/kept"}]}}
    asked = [{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount",
                                       "count": 1}}]
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
             "metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": asked}}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    return [request, resource, node, pod, claim]


def changes(kind: ApiResource, before: Json) -> Iterator[tuple[str, str, Json]]:
    """Field, subresource, and what is merged into the object."""
    meta = before["metadata"]
    yield "ownerReferences", "", {"metadata": {"ownerReferences": [GHOST]}}
    yield "finalizers", "", {"metadata": {"finalizers": [*meta.get("finalizers", ()), "example.com/mine"]}}
    yield "labels", "", {"metadata": {"labels": {**meta.get("labels", {}), "example.com/mine": "x"}}}
    yield "annotations", "", {"metadata": {"annotations": {**meta.get("annotations", {}), "example.com/mine": "x"}}}
    if kind.kind in FORCE:
        yield "force_detach", "", {"spec": FORCE[kind.kind]}
    if kind.kind in STATUS:
        yield "status", "status", {"status": STATUS[kind.kind]}


def merged(before: Json, change: Json) -> Json:
    found = copy.deepcopy(before)
    for key, value in change.items():
        inner = found.get(key)
        found[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return found


def ways(kind: ApiResource, before: Json, fresh: Json, change: Json, sub: str
         ) -> Iterator[tuple[str, t.Callable[[Client], object]]]:
    """The request of each way to have the change, which stores nothing."""
    meta = before["metadata"]
    path = kind.path(meta["name"], meta.get("namespace"), sub or None)
    whole = merged(before, change)
    applied = merged({"apiVersion": kind.group_version, "kind": kind.kind, "metadata": {"name": meta["name"]}}, change)
    yield "update", lambda client: client.raw("PUT", path, whole, query=DRY)
    yield "patch", lambda client: client.raw("PATCH", path, change, query=DRY, content_type=MERGE)
    yield "apply", lambda client: client.raw(
        "PATCH", path, applied, query={**DRY, "fieldManager": "x", "force": "true"}, content_type=APPLY)
    if not sub:
        made = kind.path(namespace=meta.get("namespace"))
        yield "create", lambda client: client.raw("POST", made, merged(fresh, change), query=DRY)


def may(client: Client, request: t.Callable[[Client], object]) -> bool:
    try:
        request(client)
    except (Forbidden, NotFound):
        return False
    except Invalid as error:
        if "ValidatingAdmissionPolicy" not in str(error):  # the request itself is wrong, which tells nothing
            raise
        return False
    return True


def tried(cluster: Cluster, kind: ApiResource) -> dict[tuple[str, str], list[str]]:
    """The ways that were allowed, by account and field."""
    before, fresh = cluster.objects[kind.kind], dict(zip(KINDS, bodies("fresh"), strict=True))[kind]
    found: dict[tuple[str, str], list[str]] = {}
    for field, sub, change in changes(kind, before):
        for way, request in ways(kind, before, fresh, change, sub):
            assert may(cluster.admin, request), f"the administrator may {way} {field} of {kind.kind}"
            for account, client in cluster.of.items():
                found.setdefault((account, field), [])
                if may(client, request):
                    found[account, field].append(way)
    return found


# The scaler's requests force nothing. The operator passes on the force of a request.
ALLOWED = {
    ("scaler", "ComposabilityRequest", "labels"): ["create"],
    ("scaler", "ComposabilityRequest", "annotations"): ["create"],
    ("operator", "ComposabilityRequest", "status"): ["patch", "apply"],
    ("operator", "ComposableResource", "labels"): ["create"],
    ("operator", "ComposableResource", "annotations"): ["create"],
    ("operator", "ComposableResource", "force_detach"): ["create"],
    ("operator", "ComposableResource", "status"): ["patch", "apply"],
}


@pytest.fixture(scope="module")
def outcome(cluster: Cluster) -> dict[tuple[str, str, str], list[str]]:
    return {(account, kind.kind, field): found for kind in KINDS
            for (account, field), found in tried(cluster, kind).items() if found}


def test_accounts_change_nothing_by_which_others_would_lose_objects(
    outcome: dict[tuple[str, str, str], list[str]]
) -> None:
    assert outcome == ALLOWED


def table(outcome: dict[tuple[str, str, str], list[str]]) -> str:
    """Rows: accounts. Columns: fields."""
    fields = ("ownerReferences", "finalizers", "labels", "annotations", "force_detach", "status")
    lines = [f"| Account | {' | '.join(f'`{field}`' for field in fields)} |", "|---" * (len(fields) + 1) + "|"]
    for account in ACCOUNTS:
        cells = [", ".join(f"{kind} ({', '.join(ways)})" for (who, kind, what), ways in outcome.items()
                           if (who, what) == (account, field)) or "no" for field in fields]
        lines.append(f"| `composable-infra-{account}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_page_has_the_table(outcome: dict[tuple[str, str, str], list[str]]) -> None:
    """With WRITE_PAGES=1 the table of the page is written."""
    head, _begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _old, _end, tail = rest.partition(END)
    page = f"{head}{BEGIN}{table(outcome)}{END}{tail}"
    if os.environ.get("WRITE_PAGES"):
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page
