# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook bootstrap refuses first what one of its parts would refuse later, also without preflight."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played, play
from ansible_collections.composable.infra.tests.integration.kube.api_server import FakeApi
from ansible_collections.composable.infra.tests.integration.playbooks.unserved_kinds_support import serve
from ansible_collections.composable.infra.tests.unit.planning.builders import rows

CONFIG: Json = {"device_info": rows(), "fabric": {
    "endpoint": "https://manager.example", "tenant": "00000000-0000-4000-8000-000000000001", "realm": "r"}}
WELL: Json = {"composable_helm_binary": "/bin/true", "controllers_config": CONFIG, "controllers_credentials": {
    "username": "u", "password": "p", "client_id": "c", "client_secret": "s"}}
IMAGE = {"controllers_image": "registry.example.com/composable/infra:99.0.0"}
COHDI: Json = {"metadata": {"name": "dynamic-device-scaler", "namespace": "cohdi"}, "spec": {
    "replicas": 1, "template": {"spec": {"containers": [
        {"name": "manager", "image": "ghcr.io/cohdi/dynamic-device-scaler:v0.1.0"}]}}}}
OURS: Json = {"metadata": {"name": "composable-infra", "namespace": "gpus",
                           "labels": {"app.kubernetes.io/part-of": "composable-infra"}}, "spec": {"replicas": 2}}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server, stopped at the end."""
    made = FakeApi(None)
    yield made
    made.stop()


def bootstrap(folder: Path, api: FakeApi, parts: list[str], holds: Json, **variables: object) -> Played:
    """Run the playbook without hosts and without preflight."""
    serve(api, **holds)
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": api.url}}], "users": [{"name": "c", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}), encoding="utf-8")
    return play(folder / "run", "composable.infra.bootstrap", {
        "composable_kubeconfig": str(kubeconfig), "composable_bootstrap_parts": parts,
        "composable_bootstrap_hosts": False, **variables}, TMPDIR=str(folder))


@pytest.mark.parametrize(("parts", "holds", "variables", "words"), [
    (["nfd", "controllers"], {"deployments": [COHDI]},
     {**WELL, "controllers_image": "registry.example.com/infra"},
     "is not usable while CoHDI does this work (dynamic-device-scaler)"),
    (["nfd", "controllers"], {}, {**WELL, **IMAGE},
     "its tag says 99.0.0, and this collection is"),
    (["nfd"], {}, {"composable_helm_binary": "/nowhere/helm"},
     "Nothing was installed. The command /nowhere/helm does not run on the control node, and the roles "
     "need it to install charts (nfd)"),
    (["nfd", "cohdi"], {"deployments": [OURS]}, {**WELL, "composable_controllers": "cohdi"},
     "is missing. Upstream's chart needs"),
], ids=["rivals", "image", "helm", "cohdi"])
def test_nothing_is_changed_where_a_later_part_would_refuse(
    tmp_path: Path, api: FakeApi, parts: list[str], holds: Json, variables: Json, words: str
) -> None:
    done = bootstrap(tmp_path, api, parts, holds, **variables)
    (failure,) = done.failures
    assert words in failure
    assert [request.path for request in api.requests if request.method != "GET"] == []
    assert done.changed == []
