# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charts swallow values that they do not know, so every key that a role sets must be one of the vendor's."""

from __future__ import annotations

import pytest
import yaml

from ansible_collections.composable.infra.plugins.plugin_utils.stack.matrix import lookup
from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tests.unit.stack.vendor_charts import (
    unknown,
    values,
    vendor,
)


@pytest.mark.parametrize(("role", "variable", "chart"), [
    ("cohdi", "cohdi_chart_values", "cohdi-0.2.0"),
    ("autoscaler", "autoscaler_chart_values", "cluster-autoscaler-9.59.0"),
    ("monitoring", "monitoring_chart_values", "dcgm-exporter-4.8.2")])
def test_every_key_is_one_of_the_charts(role: str, variable: str, chart: str) -> None:
    ours = yaml.safe_load((ROOT / "roles" / role / "vars" / "main.yml").read_text(encoding="utf-8"))[variable]
    assert unknown(ours, values(vendor(chart))) == []


def test_the_stand_in_of_cluster_autoscalers_chart_has_its_keys_and_version() -> None:
    wanted, own = lookup("charts.cluster_autoscaler"), ROOT / "tests" / "charts" / "cluster-autoscaler"
    told = yaml.safe_load((own / "Chart.yaml").read_text(encoding="utf-8"))
    assert (told["name"], told["version"]) == (wanted["name"], wanted["version"])
    assert unknown(values(own), values(vendor(f"{wanted['name']}-{wanted['version']}"))) == []


def test_a_misspelt_key_is_found() -> None:
    theirs = {"image": {"repository": "x", "tag": "y"}, "tolerations": []}
    assert unknown({"image": {"repositry": "z"}, "tolerations": [1], "imge": 1}, theirs) == ["image.repositry", "imge"]
