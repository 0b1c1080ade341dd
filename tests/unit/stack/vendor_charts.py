# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A vendor's charts and their values."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
import yaml

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
