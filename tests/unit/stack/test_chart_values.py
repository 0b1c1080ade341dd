# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charts swallow values that they do not know, so every key that these roles set must be one of the vendor's."""

from __future__ import annotations

import functools
import typing as t

import pytest
import yaml

from ansible_collections.composable.infra.plugins.plugin_utils.stack.matrix import lookup
from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tests.unit.stack.vendor_charts import (
    unknown,
    values,
    vendor,
)

CHARTS = [
    ("nfd", ["nfd_chart_values"], "node-feature-discovery-v0.19.0"),
    ("gpu_operator", ["gpu_operator_operands", "gpu_operator_chart_only"], "gpu-operator-v26.7.0"),
    ("nvidia_dra_driver", ["nvidia_dra_driver_chart_values"], "dra-driver-nvidia-gpu-v0.4.1"),
]


# The chart's template takes these, and its values.yaml does not name them. Source: NVIDIA/gpu-operator v26.7.0,
# deployments/gpu-operator/templates/clusterpolicy.yaml, .Values.dcgm.imagePullSecrets.
UNNAMED = {"dcgm.imagePullSecrets", "dcgmExporter.imagePullSecrets"}


@functools.cache
def theirs(chart: str) -> dict[str, t.Any]:
    """Default values of a vendor's chart, read once."""
    return values(vendor(chart))


def load(path: str) -> dict[str, t.Any]:
    """A YAML file of the checkout."""
    found: dict[str, t.Any] = yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize(("role", "variables", "chart"), CHARTS)
def test_every_key_is_one_of_the_charts(role: str, variables: list[str], chart: str) -> None:
    ours = load(f"roles/{role}/vars/main.yml")
    for variable in variables:
        assert ours[variable]
        assert set(unknown(ours[variable], theirs(chart))) <= UNNAMED


@pytest.mark.parametrize(("role", "variables", "chart"), CHARTS)
def test_our_charts_for_tests_have_the_vendors_keys_name_and_version(
    role: str, variables: list[str], chart: str
) -> None:
    wanted = lookup(f"charts.{role}")
    own = load(f"tests/charts/{wanted['name']}/Chart.yaml")
    assert (own["name"], own["version"]) == (wanted["name"], wanted["version"])
    assert chart.removeprefix(f"{wanted['name']}-").lstrip("v") == str(wanted["version"]).lstrip("v")
    assert unknown(load(f"tests/charts/{wanted['name']}/values.yaml"), theirs(chart)) == []


def test_images_of_the_matrix_are_the_vendors() -> None:
    found = theirs("gpu-operator-v26.7.0")
    parts = [found[name] for name in ("toolkit", "devicePlugin", "dcgm", "dcgmExporter", "migManager")]
    parts.append(found["driver"]["manager"])
    listed = lookup("images.gpu_operator")
    assert {f"{part['repository']}/{part['image']}:{part['version']}" for part in parts} <= set(listed)
    assert found["driver"]["version"] in map(str, lookup("driver.versions").values())
