# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the roles tell the vendors' charts beyond names: things that the charts leave out by default."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tests.unit.roles.test_chart_values import values, vendor

Json = dict[str, t.Any]


def variables(role: str) -> Json:
    found: Json = yaml.safe_load((ROOT / "roles" / role / "vars" / "main.yml").read_text(encoding="utf-8"))
    return found


def test_the_exporter_knows_which_claim_has_a_device() -> None:
    assert variables("monitoring")["monitoring_chart_values"]["kubernetesDRA"] == {"enabled": True}
    assert values(vendor("dcgm-exporter-4.8.2"))["kubernetesDRA"] == {"enabled": False}


@pytest.mark.parametrize("part", ["gpu_operator_operands", "gpu_operator_chart_only"])
def test_every_image_of_the_operator_has_the_pull_secrets(part: str) -> None:
    """What comes from a repository of its own may need the secret; driver.manager takes the driver's."""
    told = {name: operand for name, operand in variables("gpu_operator")[part].items() if "repository" in operand}
    assert len(told) > 1
    assert [name for name, operand in told.items() if "imagePullSecrets" not in operand] == []


def test_a_gpu_cluster_leaves_a_driver_container_to_an_nvidia_driver() -> None:
    told = variables("gpu_operator")["gpu_operator_chart_only"]["driver"]["nvidiaDriverCRD"]["enabled"]
    assert told == "{{ gpu_operator_mode == 'gpu_cluster' and gpu_operator_driver | bool }}"
    assert values(vendor("gpu-operator-v26.7.0"))["driver"]["nvidiaDriverCRD"]["enabled"] is False


def test_an_image_of_cohdi_keeps_the_path_of_its_mirror() -> None:
    """The chart joins registry and repository by a slash."""
    for name in ("composable-dra-driver", "dynamic-device-scaler", "composable-resource-operator"):
        image = variables("cohdi")["cohdi_chart_values"][name]["common"]["image"]
        assert image == {"registry": "{{ cohdi_registry }}", "repository": "{{ cohdi_repository }}/" + name}
