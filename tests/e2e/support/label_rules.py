# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How NFD reads a node and judges NodeFeatureRules, as far as our rules need it; an error for all else."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping
from pathlib import Path

# attributes of each device, or by name what is there (modules have no value)
Feature = list[dict[str, str]] | dict[str, str] | dict[str, None]

NFD_LABELS = "feature.node.kubernetes.io/"
ATTRIBUTES = ("class", "vendor", "device", "subsystem_vendor", "subsystem_device")


def node_features(root: Path, node: str) -> dict[str, Feature]:
    """What NFD's worker reads on a node, of the features that our rules and labels use."""
    modules = root / "proc" / "modules"
    lines = modules.read_text(encoding="utf-8").splitlines() if modules.exists() else []
    return {"pci.device": [_attributes(path) for path in sorted((root / "sys/bus/pci/devices").iterdir())],
            "kernel.loadedmodule": {line.split()[0]: None for line in lines},
            "system.name": {"nodename": node}}


def _attributes(folder: Path) -> dict[str, str]:
    found = {name: (folder / name).read_text(encoding="utf-8").strip().removeprefix("0x") for name in ATTRIBUTES}
    # without the programming interface
    return {**found, "class": found["class"][:4]}


def pci_labels(config: Mapping[str, t.Any], features: Mapping[str, Feature]) -> dict[str, str]:
    """Labels of the worker's source pci."""
    devices = t.cast("list[dict[str, str]]", features["pci.device"])
    fields = [name for name in ATTRIBUTES if name in config["deviceLabelFields"]]
    return {f"{NFD_LABELS}pci-{'_'.join(device[name] for name in fields)}.present": "true" for device in devices
            if device["class"].startswith(tuple(config["deviceClassWhitelist"]))}


def rule_labels(rules: Iterable[Mapping[str, t.Any]], features: Mapping[str, Feature]) -> dict[str, str]:
    """Labels of the rules that match; an error for what this stand-in cannot judge."""
    found: dict[str, str] = {}
    for rule in rules:
        if strange := rule.keys() - {"name", "labels", "matchFeatures"}:
            raise ValueError(f"the stand-in for NFD does not know {', '.join(sorted(strange))}")
        if all(_matches(term, features) for term in rule["matchFeatures"]):
            found |= {name if "/" in name else NFD_LABELS + name: value for name, value in rule["labels"].items()}
    return {name: value for name, value in found.items() if _permitted(name)}


def _permitted(label: str) -> bool:
    namespace = label.partition("/")[0]
    return f"{namespace}/" == NFD_LABELS or not f".{namespace}".endswith(".kubernetes.io")


def _matches(term: Mapping[str, t.Any], features: Mapping[str, Feature]) -> bool:
    feature = features.get(str(term["feature"]).lower())
    # all expressions on one and the same device
    candidates = feature if isinstance(feature, list) else [feature] if feature is not None else []
    return any(all(_holds(expression, name, one) for name, expression in term["matchExpressions"].items())
               for one in candidates)


def _holds(expression: Mapping[str, t.Any], name: str, found: Mapping[str, str | None]) -> bool:
    value, values = found.get(name), expression.get("value") or []
    match expression["op"]:
        case "Exists":
            return name in found
        case "DoesNotExist":
            return name not in found
        case "In":
            return value in values
        case "NotIn":
            return value is not None and value not in values
    raise ValueError(f"the stand-in for NFD does not know the operator {expression['op']}")
