# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role controllers refuses before it asks the API server anything, and what it writes without one."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.e2e.support.played import (
    Json,
    Played,
    Question,
    play,
    play_each,
    role,
    well,
)
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

VERSION = str(yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"])
IMAGE = "registry.example.com:5000/composable/infra"
CONFIG: Json = {
    "device_info": [{"index": 1, "cdi-model-name": "A100 40G", "k8s-device-name": "nvidia-a100-40g",
                     "driver-name": "gpu.nvidia.com", "cannot-coexist-with": [],
                     "dra-attributes": {"type": "gpu", "productName": "NVIDIA A100-PCIE-40GB", "uuid": ""}}],
    "fabric": {"manager": "fm", "endpoint": "https://fabric-manager.example.com",
               "tenant": "00000000-0000-4000-8000-000000000001"}}


def _nowhere(server: str) -> Json:
    return {"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "c", "user": {"token": "x"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}


GIVEN: Json = {"controllers_config": CONFIG, "controllers_credentials_secret": "fabric",
               "controllers_image": f"{IMAGE}:{VERSION}", "composable_kubeconfig": _nowhere("https://127.0.0.1:1")}


def run(folder: Path, **variables: t.Any) -> Played:
    """Run the role where no API server answers."""
    return play(folder, role("controllers", **{**GIVEN, **variables}), {})


OLDER = [":0.9.0", ":v99.1.2", ":0.9.0@sha256:" + "0" * 64, ":0.9.0-ubi9"]
TAKEN: list[Json] = [
    {}, {"controllers_image": f"{IMAGE}:v{VERSION}-ubi9"}, {"controllers_image": f"{IMAGE}:417"},
    {"controllers_image": f"{IMAGE}@sha256:" + "0" * 64},
    {"controllers_image": "registry.example.com:5000/0.9.0/infra"},
    {"controllers_image": f"{IMAGE}:0.9.0", "controllers_image_check": False}]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """What the role says about each of the images, by the tag or the variables."""
    asked = {**{tag: {"controllers_image": IMAGE + tag} for tag in OLDER}, **{str(each): each for each in TAKEN}}
    include = {"ansible.builtin.include_role": {"name": "composable.infra.controllers"}}
    return play_each(tmp_path_factory.mktemp("images"),
                     {key: Question([include], {**GIVEN, **variables}) for key, variables in asked.items()})


@pytest.mark.parametrize("tag", OLDER)
def test_image_of_another_version_is_refused(answers: dict[str, Played], tag: str) -> None:
    version = tag[1:].lstrip("v").partition("@")[0].partition("-")[0]
    assert answers[tag].status != 0
    assert answers[tag].failures == [
        f"controllers_image: {IMAGE}{tag} is not usable: its tag says {version}, and this collection is {VERSION}. "
        f"Permissions, policies and arguments fit one version. Take the image of {VERSION}, or run the role of the "
        f"collection {version}. If the tag has numbers of your own, set controllers_image_check to false."]


@pytest.mark.parametrize("variables", TAKEN, ids=str)
def test_image_of_this_version_or_of_an_unknown_one_is_taken(answers: dict[str, Played], variables: Json) -> None:
    """Then the API server is asked, and there is none."""
    (message,) = answers[str(variables)].failures
    assert "is not usable" not in message
    assert "127.0.0.1" in message


def files(folder: Path) -> dict[str, list[Json]]:
    """The objects of each file, by its name."""
    return {path.name: list(yaml.safe_load_all(path.read_text(encoding="utf-8"))) for path in sorted(folder.iterdir())}


def names(objects: list[Json]) -> list[str]:
    """Kind and name of each."""
    return [f"{each['kind']} {each['metadata']['name']}" for each in objects]


def test_manifests_are_files_in_the_order_of_application(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    given: Json = {"controllers_state": "manifests", "controllers_manifests": str(folder),
                   "controllers_agent_plugin_namespaces": ["gpu-operator"], "controllers_namespace": "fabric"}
    assert well(run(tmp_path, **given)).changed
    found = files(folder)
    assert list(found) == [
        "00-definitions.yaml", "01-namespace.yaml", "02-policies-and-permissions.yaml", "03-agents-permissions.yaml",
        "04-agents.yaml", "05-controllers.yaml", "06-gate-reaper.yaml", "07-monitors-and-gates.yaml"]
    assert {each["kind"] for each in found["00-definitions.yaml"]} == {"CustomResourceDefinition"}
    assert names(found["01-namespace.yaml"]) == ["Namespace fabric"]
    assert names(found["04-agents.yaml"]) == ["DaemonSet composable-infra-agent"]
    assert names(found["05-controllers.yaml"]) == ["Deployment composable-infra"]
    assert names(found["07-monitors-and-gates.yaml"])[0] == "MutatingAdmissionPolicy composable-infra-gates"
    everything = [each for objects in found.values() for each in objects]
    assert {each["metadata"].get("namespace") for each in everything} == {None, "fabric", "gpu-operator", "default"}
    assert "Secret" not in {each["kind"] for each in everything}
    assert well(run(tmp_path, **given)).changed == []
    # Without our operator nobody asks the privileged agents for anything.
    well(run(tmp_path, **given, controllers_components=["publisher", "scaler"], controllers_service_monitor="always"))
    assert list(files(folder)) == [
        "00-definitions.yaml", "01-namespace.yaml", "02-policies-and-permissions.yaml", "03-controllers.yaml",
        "04-gate-reaper.yaml", "05-monitors-and-gates.yaml"]


def test_manifests_hold_no_credentials(tmp_path: Path) -> None:
    refused = run(tmp_path, controllers_state="manifests", controllers_manifests=str(tmp_path / "manifests"),
                  controllers_credentials={"username": "u", "password": "correct-horse"},
                  controllers_credentials_secret="")
    assert refused.status != 0
    assert "the files would hold secrets" in "".join(refused.failures)
    assert not (tmp_path / "manifests").exists()
