# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role controllers refuses before it asks the API server anything, and what it writes without one."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played, play, role
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

VERSION = str(yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"])
IMAGE = "registry.example.com:5000/composable/infra"
CONFIG: Json = {
    "device_info": [{"index": 1, "cdi-model-name": "A100 40G", "k8s-device-name": "nvidia-a100-40g",
                     "driver-name": "gpu.nvidia.com", "cannot-coexist-with": [],
                     "dra-attributes": {"type": "gpu", "productName": "NVIDIA A100-PCIE-40GB", "uuid": ""}}],
    "fabric": {"manager": "fm", "endpoint": "https://fabric-manager.example.com",
               "tenant": "00000000-0000-4000-8000-000000000001"}}


def run(folder: Path, **variables: t.Any) -> Played:
    """Run the role where no API server answers."""
    given = {"controllers_config": CONFIG, "controllers_credentials_secret": "fabric",
             "controllers_image": f"{IMAGE}:{VERSION}", **variables}
    return play(folder, role("controllers", **given), {"composable_kubeconfig": _nowhere("https://127.0.0.1:1")})


def _nowhere(server: str) -> Json:
    return {"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "c", "user": {"token": "x"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}


@pytest.mark.parametrize("tag", [":0.9.0", ":v99.1.2", ":0.9.0@sha256:" + "0" * 64, ":0.9.0-ubi9"])
def test_image_of_another_version_is_refused(tmp_path: Path, tag: str) -> None:
    refused = run(tmp_path, controllers_image=IMAGE + tag)
    version = tag[1:].lstrip("v").partition("@")[0].partition("-")[0]
    assert refused.status != 0
    assert refused.failures == [
        f"controllers_image: {IMAGE}{tag} is not usable: its tag says {version}, and this collection is {VERSION}. "
        f"Permissions, policies and arguments fit one version. Take the image of {VERSION}, or run the role of the "
        f"collection {version}. If the tag has numbers of your own, set controllers_image_check to false."]


@pytest.mark.parametrize("variables", [
    {}, {"controllers_image": f"{IMAGE}:v{VERSION}-ubi9"}, {"controllers_image": f"{IMAGE}:417"},
    {"controllers_image": f"{IMAGE}@sha256:" + "0" * 64},
    {"controllers_image": "registry.example.com:5000/0.9.0/infra"},
    {"controllers_image": f"{IMAGE}:0.9.0", "controllers_image_check": False}])
def test_image_of_this_version_or_of_an_unknown_one_is_taken(tmp_path: Path, variables: Json) -> None:
    assert "is not usable" not in "".join(run(tmp_path, **variables).failures)
