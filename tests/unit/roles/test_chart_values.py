# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charts swallow values that they do not know, so every key that a role sets must be one of the vendor's."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.plugins.plugin_utils.stack.matrix import lookup
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

Json = dict[str, t.Any]
VARIABLE = "VENDOR_DATA"
FREE = {"extraArgs", "extraEnv", "nodeSelector", "tolerations", "imagePullSecrets", "hostAliases"}


def vendor(name: str) -> Path:
    """A folder with a vendor's data; the test is skipped where there is none."""
    for place in (os.environ.get(VARIABLE), ROOT.parent / "shared" / "vendor"):
        if place and (Path(place) / name).is_dir():
            return Path(place) / name
    pytest.skip(f"no folder {name} with the vendor's values: set {VARIABLE} to where it is")


def values(path: Path) -> Json:
    """Default values of a chart and of its subcharts, the latter under their names."""
    own: Json = yaml.safe_load((path / "values.yaml").read_text(encoding="utf-8")) or {}
    parts = {sub.name: values(sub) for sub in sorted((path / "charts").glob("*"))} if (path / "charts").is_dir() else {}
    return {**own, **{name: {**found, **(own.get(name) or {})} for name, found in parts.items()}}


def unknown(set_values: Json, theirs: Json, path: str = "") -> list[str]:
    """Paths that the chart does not have; below a key that is free, or empty there, anything is allowed."""
    faults: list[str] = []
    for key, value in set_values.items():
        if key not in theirs:
            faults.append(f"{path}{key}")
        elif isinstance(value, dict) and key not in FREE and isinstance(theirs[key], dict) and theirs[key]:
            faults += unknown(value, theirs[key], f"{path}{key}.")
    return faults


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
