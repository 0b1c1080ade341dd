# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Definitions that an older version left behind become those of the chart, though Helm never changes them."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.support.played import Json, play, role, well
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

pytestmark = pytest.mark.slow
CHARTS = ROOT / "tests" / "charts"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def lab(stage_factory: StageFactory) -> Lab:
    """A lab of the file's own."""
    return stage_factory(nodes=1).lab


def schema(definition: Json) -> Json:
    """What the first version of a definition keeps."""
    found: Json = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


@pytest.mark.parametrize(("name", "path"), [
    ("nfd", "node-feature-discovery/crds/nodefeaturerules.yaml"),
    ("gpu_operator", "gpu-operator/crds/clusterpolicies.yaml"),
])
def test_fields_of_the_new_version_are_kept(lab: Lab, tmp_path: Path, name: str, path: str) -> None:
    new: Json = yaml.safe_load((CHARTS / path).read_text(encoding="utf-8"))
    old = copy.deepcopy(new)
    old["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
        "type": "object", "properties": {"spec": {"type": "object"}}}
    assert schema(old) != schema(new)
    lab.api.request("POST", DEFINITIONS, old)
    given = {"composable_kubeconfig": str(lab.kubeconfig), "composable_wait_timeout": 60, "gpu_operator_wait": False,
             "composable_chart_mirror": str(CHARTS), "gpu_operator_preflight": False, "nfd_wait": False,
             "composable_helm_binary": str(Path(sys.executable).parent / "helm")}
    well(play(tmp_path / "first", role(name), given))
    assert schema(lab.api.get(f"{DEFINITIONS}/{new['metadata']['name']}")) == schema(new)
    assert well(play(tmp_path / "second", role(name), given)).changed == []
