# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the roles tell the vendors' charts beyond names: things that the charts leave out by default."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tests.unit.stack.vendor_charts import (
    values,
    vendor,
)

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


HELM_TASKS = [(path.parts[-3], task) for path in sorted((ROOT / "roles").glob("*/tasks/*.yml"))
              for task in yaml.safe_load(path.read_text(encoding="utf-8")) if "kubernetes.core.helm" in task]


@pytest.mark.parametrize(("role", "task"), HELM_TASKS, ids=lambda given: given if isinstance(given, str) else "")
def test_every_release_is_waited_for_as_the_user_says(role: str, task: Json) -> None:
    given = task["kubernetes.core.helm"]
    assert given["wait"].startswith(f"{{{{ {role}_wait ")
    assert given["timeout"] == f"{{{{ {role}_wait_timeout }}}}s"


def test_each_role_with_a_chart_is_among_them() -> None:
    assert {role for role, _task in HELM_TASKS} == {
        "autoscaler", "cohdi", "gpu_operator", "monitoring", "nfd", "nvidia_dra_driver"}


def test_a_class_that_the_pages_show_looks_at_its_own_driver_first() -> None:
    """Without that, a slice of another driver breaks the class for every pod."""
    pages = [*ROOT.glob("roles/*/README.md"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    shown = [line.split(":", 1)[1].strip() for page in pages for line in page.read_text("utf-8").splitlines()
             if line.strip().startswith("expression:") and "device." in line]
    assert shown
    assert [text for text in shown if not text.startswith("\"device.driver == '")] == []
