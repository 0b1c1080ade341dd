# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in a capture, what is not, and which files are captures."""

from __future__ import annotations

import copy
import json
import stat
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, FabricSnapshot, Machine, Size
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import EVENTS, SECRETS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif import capture_file
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.capture import Capture, take
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.capture_file import (
    BadCapture,
    as_document,
    of_document,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER, rows
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.conftest import MANAGER
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device
from ansible_collections.composable.infra.tests.unit.reconcile.whatif.conftest import TakeCapture

Json = dict[str, t.Any]
CANARY = "canary-secret"


def marked(raw: Json) -> Json:
    """The object with a secret wherever people put theirs."""
    raw = copy.deepcopy(raw)
    raw["metadata"].setdefault("annotations", {})["example.com/note"] = f"{CANARY}-annotation"
    raw["metadata"]["annotations"][cohdi.LAST_APPLIED] = f"{CANARY}-applied"
    raw["metadata"]["managedFields"] = [{"manager": f"{CANARY}-manager"}]
    return raw


def secret_pod(bound: bool) -> Json:
    raw = gated_pods.pod("train")
    container = {"name": "c", "image": f"{CANARY}-image", "command": [f"{CANARY}-command"],
                 "args": [f"{CANARY}-args"], "env": [{"name": "TOKEN", "value": f"{CANARY}-env"}],
                 "envFrom": [{"secretRef": {"name": f"{CANARY}-envfrom"}}],
                 "livenessProbe": {"exec": {"command": [f"{CANARY}-probe"]}},
                 "lifecycle": {"preStop": {"exec": {"command": [f"{CANARY}-hook"]}}},
                 "resources": {"requests": {"cpu": "1"}}}
    raw["spec"] |= {"containers": [container], "initContainers": [container], "ephemeralContainers": [container],
                    "imagePullSecrets": [{"name": f"{CANARY}-pull"}], "serviceAccountName": f"{CANARY}-account",
                    "hostAliases": [{"ip": "192.0.2.1", "hostnames": [f"{CANARY}-host"]}],
                    "volumes": [{"name": "v", "secret": {"secretName": f"{CANARY}-volume"}},
                                {"name": "w", "csi": {"driver": f"{CANARY}-csi"}}]}
    raw["spec"] |= {"nodeName": "node-0", "nodeSelector": {"zone": "a"}} if bound else {}
    return marked(raw)


def secret_objects(*, bound: bool) -> Iterator[Json]:
    """One of each kind that is captured."""
    config = [{"requests": ["r"], "opaque": {"driver": DRIVER, "parameters": {"key": f"{CANARY}-parameters"}}}]
    claim = gated_pods.claim("train")
    claim["spec"]["devices"]["config"] = config
    told = {**objects.told(objects.pool_result(), objects.READY), "data": {"k": f"{CANARY}-data"},
            "networkData": {"ips": [f"{CANARY}-ip"]}}
    claim["status"] = {"allocation": {"devices": {"results": [objects.pool_result()], "config": config}},
                       "devices": [told]}
    claim["metadata"]["labels"] = {"l": f"{CANARY}-label"}
    node = marked(gated_pods.node())
    node["status"] |= {"addresses": [{"address": f"{CANARY}-address"}], "images": [{"names": [f"{CANARY}-img"]}],
                       "nodeInfo": {"systemUUID": f"{CANARY}-uuid"}}
    yield from (node, marked(claim), secret_pod(bound))
    yield marked({"apiVersion": "v1", "kind": "Namespace", "metadata": gated_pods.opted_in("default")})
    yield marked({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": objects.meta(DRIVER),
                  "spec": {"config": config}})
    yield marked(objects.request())
    yield marked(objects.resource(device="d1", serial="GPU-d1", asked=9.0))
    yield from (marked(objects.local_slice("GPU-d1")), marked(objects.pool_slice("a100-0")))


@pytest.mark.parametrize("bound", [False, True], ids=["pending", "bound"])
def test_no_secret_gets_into_a_capture(bench: Bench, captured: TakeCapture, bound: bool) -> None:
    bench.api.put(SECRETS, {"kind": "Secret", "metadata": objects.meta("s", "default"), "data": {"k": CANARY}})
    bench.api.put(EVENTS, {"kind": "Event", "metadata": objects.meta("e", "default"), "message": CANARY,
                           "reason": "Killing", "lastTimestamp": "2026-01-01T00:00:00Z",
                           "involvedObject": {"kind": "Pod", "namespace": "default", "name": "train"}})
    for raw in secret_objects(bound=bound):
        bench.put(raw)
    document = as_document(captured(bench))
    text = json.dumps(document)
    assert CANARY not in text
    assert not [value for name, value in MANAGER.items() if name in ("endpoint", "tenant") and value in text]
    assert {kind: len(found) for kind, found in document["objects"].items()} == {
        "composabilityrequests": 1, "composableresources": 1, "deviceclasses": 1, "namespaces": 1, "nodes": 1,
        "pods": 1, "resourceclaims": 1, "resourceslices": 2}
    assert not {call.plural for call in bench.api.calls if call.verb == "list"} & {"secrets", "configmaps"}


def test_credentials_of_the_configuration_stay_out(bench: Bench, captured: TakeCapture, config: EngineConfig) -> None:
    """Not even under another name: the settings are those of the planners."""
    capture = captured(bench)
    assert "fabric" not in capture.settings
    assert capture.settings == config.planning
    assert not config.planning.keys() & {"username", "password", "client_secret", "endpoint"}


def test_what_the_planners_read_is_kept(bench: Bench, captured: TakeCapture) -> None:
    pod = secret_pod(bound=True)
    pod["metadata"] |= {"labels": {"app": "a"}, "ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "u"}]}
    pod["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "v", "mountPath": "/secret", "bindMountOptions": ["noexec"]}, {"name": "w", "mountPath": "/secret"}]
    bench.put(pod, marked(objects.resource(device="d1", asked=9.0, HELD_FOR=cohdi.hold("uid-train", 5.0))))
    capture = captured(bench)
    (kept,) = capture.of("pods")
    assert kept["spec"]["nodeSelector"] == {"zone": "a"}
    assert kept["spec"]["volumes"] == [{"name": "v", "secret": {}}, {"name": "w", "csi": {}}]
    assert kept["spec"]["containers"] == [{"name": "c", "resources": {"requests": {"cpu": "1"}},
                                           "volumeMounts": [{"bindMountOptions": ["noexec"]}]}]
    assert kept["metadata"]["labels"] == {"app": "a"}
    assert kept["metadata"]["ownerReferences"] == pod["metadata"]["ownerReferences"]
    assert cohdi.read_hold(capture.of("composableresources")[0]) == ("uid-train", 5.0)


FABRIC = FabricSnapshot(
    {"m": Machine("m", "node-0", 1, (device("d1", size=4, box="box-a"), Device("d2", "T4")), power="On")},
    {(A100, 1): 2}, 5.0, {"T4/1": "not counted"}, 6.0, {"m": {A100: Size(None, 2)}})
EMPTY = Capture(7.0, {"device_info": rows()}, "fm", 180.0, "ssh", {}, {}, FABRIC)


def test_round_trip() -> None:
    capture = Capture(7.0, {"device_info": rows()}, "fm", 180.0, "agent", {"node-0": True},
                      {"pods": (gated_pods.pod("train"),)}, FABRIC)
    assert of_document(json.loads(json.dumps(as_document(capture))), "x") == capture


def test_a_capture_of_before_boxes_were_told_is_read() -> None:
    document = as_document(EMPTY)
    for found in document["fabric"]["machines"][0]["devices"]:
        del found["box"]
    (machine,) = of_document(document, "x").fabric.machines.values()
    assert [each.box for each in machine.devices] == [None, None]


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    """Also where a file of another mode was."""
    path = tmp_path / "capture.json"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o644)
    capture = EMPTY
    capture_file.write(capture, str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert capture_file.read(str(path)) == capture
    assert [each.name for each in tmp_path.iterdir()] == ["capture.json"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "no" / "capture.json")
    with pytest.raises(BadCapture, match=r"no/capture.json: cannot be written: No such file or directory"):
        capture_file.write(EMPTY, path)


def test_what_cannot_be_put_in_place_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(BadCapture, match="folder: cannot be written"):
        capture_file.write(EMPTY, str(tmp_path / "folder"))
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(("text", "said"), [
    ("not json", "x.json: is not JSON. Take a capture with fabric_capture"),
    ("[]", "x.json: must contain a JSON object, not list"),
    ('{"version": 1}', "x.json: format: None is not usable: must be 'composable.infra/capture'"),
    ('{"format": "composable.infra/capture", "version": 2}', "x.json: version: 2 is not usable: must be 1"),
    ('{"format": "composable.infra/capture", "version": 1}', "x.json: is damaged: KeyError at 'settings'"),
])
def test_files_that_are_no_captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.json").write_text(text, encoding="utf-8")
    with pytest.raises(BadCapture) as raised:
        capture_file.read("x.json")
    assert str(raised.value).startswith(said)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(BadCapture, match="/not/there: cannot be read: No such file or directory"):
        capture_file.read("/not/there")


@pytest.mark.parametrize("field", ["settings", "agents", "objects", "fabric", "attach_timeout", "taken"])
@pytest.mark.parametrize("value", [None, ["x"], "missing"])
def test_damaged_captures_are_one_sentence(field: str, value: object) -> None:
    """Whatever is wrong with it: never another error."""
    document = as_document(EMPTY)
    document[field] = value
    if value == "missing":
        del document[field]
    with pytest.raises(BadCapture, match=r"^x: is damaged: \w+ at "):
        of_document(document, "x")


def test_an_object_without_uid_is_damage() -> None:
    with pytest.raises(BadCapture, match=r"^x: is damaged: KeyError at 'uid'"):
        of_document({**as_document(EMPTY), "objects": {"pods": [{"metadata": {"name": "train"}}]}}, "x")


def test_settings_of_another_version_are_named() -> None:
    document = {**as_document(EMPTY), "settings": {"device_info": rows(), "new_in_2": 5}}
    with pytest.raises(BadCapture, match="x: is damaged: BadSetting at new_in_2: 5 is not usable: unknown key"):
        of_document(document, "x")


def test_a_manager_that_does_not_answer_is_an_error(bench: Bench, config: EngineConfig,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    bench.fabric.snapshot_error = Unavailable("the CDI Manager does not answer")
    monkeypatch.setattr(f"{EngineConfig.__module__}.connect", lambda _config: bench.fabric)
    with pytest.raises(Unavailable):
        take(bench.api.client, config)
