# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin's objects, and how it keeps its slice against everybody who deletes or changes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.composable.infra.lab.hardware.slices import device_entries
from ansible_collections.composable.infra.lab.real_nodes.plugin import __main__ as program
from ansible_collections.composable.infra.lab.real_nodes.plugin import daemonset
from ansible_collections.composable.infra.lab.real_nodes.plugin.api import PodApi
from ansible_collections.composable.infra.lab.real_nodes.plugin.devices import FoundGpu
from ansible_collections.composable.infra.lab.real_nodes.plugin.publisher import SLICES, Publisher

ENTRIES = device_entries([FoundGpu("GPU-a", "H100", "0000:10:00.0", 0)])


class FakeApi(PodApi):
    """Slices by name, in place of an API server: a stand-in that checks no schema."""

    def __init__(self) -> None:
        self.slices: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        if path.startswith("/api/v1/nodes/"):
            return {"metadata": {"uid": "node-uid"}}
        if method == "GET":
            assert "spec.nodeName%3Dreal-0" in path
            return {"metadata": {"resourceVersion": "7"}, "items": list(self.slices.values())}
        self.writes.append(method)
        if method == "DELETE":
            return self.slices.pop(path.removeprefix(SLICES + "/"))
        assert body is not None
        name = body["metadata"].get("name") or f"made-{len(self.writes)}"
        self.slices[name] = {**body, "metadata": {**body["metadata"], "name": name}}
        return self.slices[name]

    def watch(self, path: str, seconds: int) -> Iterator[dict[str, Any]]:
        raise AssertionError("nobody watches here")


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


def publisher(api: FakeApi, entries: list[dict[str, Any]]) -> Publisher:
    return Publisher(api, "real-0", entries, lambda line: None)


def test_slice_is_published_once_and_belongs_to_the_node(api: FakeApi) -> None:
    mine = publisher(api, ENTRIES)
    assert mine.publish() == mine.publish() == "7"
    (found,) = api.slices.values()
    assert found["spec"]["devices"] == ENTRIES
    assert found["spec"]["pool"] == {"name": "real-0", "generation": 1, "resourceSliceCount": 1}
    assert found["metadata"]["generateName"] == "real-0-gpu.nvidia.com-"
    assert found["metadata"]["ownerReferences"][0]["uid"] == "node-uid"
    assert api.writes == ["POST"]


def test_slice_of_an_earlier_start_is_replaced_with_a_greater_generation(api: FakeApi) -> None:
    publisher(api, []).publish()
    publisher(api, ENTRIES).publish()
    (found,) = api.slices.values()
    assert found["spec"]["devices"] == ENTRIES
    assert found["spec"]["pool"]["generation"] == 2
    assert api.writes == ["POST", "PUT"]


def test_deleted_slice_comes_back_and_a_second_one_goes(api: FakeApi) -> None:
    mine = publisher(api, ENTRIES)
    mine.publish()
    api.slices.clear()
    mine.publish()
    api.slices["foreign"] = {"metadata": {"name": "foreign"}, "spec": {"devices": []}}
    mine.publish()
    assert [it["spec"]["devices"] for it in api.slices.values()] == [ENTRIES]


def test_pod_runs_on_real_nodes_only_and_reads_this_python() -> None:
    objects = daemonset.documents("https://127.0.0.1:1", 1.5)
    assert [it["kind"] for it in objects] == [
        "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet"]  # fmt: skip
    template = objects[-1]["spec"]["template"]
    pod, (container,) = template["spec"], template["spec"]["containers"]
    assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "dra-driver-nvidia-gpu"
    assert pod["nodeSelector"] == {"lab.composable.infra/real": "true"}
    mounted = {mount["mountPath"]: mount["readOnly"] for mount in container["volumeMounts"]}
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
    assert [paths[mount["name"]] for mount in container["volumeMounts"]] == list(mounted)
    assert any(Path(sys.executable).is_relative_to(path) for path in mounted)
    assert {path for path, read_only in mounted.items() if not read_only} == {
        "/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry", "/var/run/cdi"}  # fmt: skip
    options = program.parser().parse_args([*container["command"][3:]])
    assert (options.server, options.start_seconds) == ("https://127.0.0.1:1", 1.5)
