# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for NFD judges rules as NFD does, or not at all."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.tests.e2e.support.label_rules import Feature, pci_labels, rule_labels

Json = dict[str, t.Any]
GPU = {"class": "0302", "vendor": "10de", "device": "2330"}
AUDIO = {"class": "0403", "vendor": "1002", "device": "ab28"}
FEATURES: dict[str, Feature] = {"pci.device": [GPU, AUDIO], "kernel.loadedmodule": {"nvidia": None},
                                "system.name": {"nodename": "node-0"}}


@pytest.mark.parametrize(("feature", "expressions", "matches"), [
    ("pci.device", {"vendor": {"op": "In", "value": ["10de"]}, "class": {"op": "In", "value": ["0302"]}}, True),
    ("pci.device", {"vendor": {"op": "In", "value": ["10de"]}, "class": {"op": "In", "value": ["0403"]}}, False),
    ("pci.device", {"vendor": {"op": "NotIn", "value": ["10de", "1002"]}}, False),
    ("kernel.loadedmodule", {"nvidia": {"op": "In", "value": ["nvidia"]}}, False),
    ("kernel.loadedmodule", {"nouveau": {"op": "DoesNotExist"}}, True),
    ("system.name", {"nodename": {"op": "In", "value": ["node-1"]}}, False),
    ("usb.device", {"vendor": {"op": "Exists"}}, False)])
def test_the_stand_in_reads_rules_as_nfd_does(feature: str, expressions: Json, matches: bool) -> None:
    rule = {"name": "r", "labels": {"x": "1", "node.kubernetes.io/y": "1"},
            "matchFeatures": [{"feature": feature, "matchExpressions": expressions}]}
    assert rule_labels([rule], FEATURES) == ({"feature.node.kubernetes.io/x": "1"} if matches else {})


@pytest.mark.parametrize(("fields", "label"), [(["vendor", "class"], "pci-0302_10de"), (["vendor"], "pci-10de")])
def test_labels_of_the_bus_have_the_fields_in_nfds_order(fields: list[str], label: str) -> None:
    config = {"deviceClassWhitelist": ["03"], "deviceLabelFields": fields}
    assert pci_labels(config, FEATURES) == {f"feature.node.kubernetes.io/{label}.present": "true"}


@pytest.mark.parametrize("more", [{"matchAny": []}, {"labelsTemplate": "a"}, {"taints": []}])
def test_what_it_cannot_judge_is_an_error(more: Json) -> None:
    with pytest.raises(ValueError, match=next(iter(more))):
        rule_labels([{"name": "r", "labels": {}, "matchFeatures": [], **more}], FEATURES)


def test_an_operator_that_it_does_not_know_is_an_error() -> None:
    terms = [{"feature": "pci.device", "matchExpressions": {"class": {"op": "Gt", "value": ["1"]}}}]
    with pytest.raises(ValueError, match="Gt"):
        rule_labels([{"name": "r", "labels": {}, "matchFeatures": terms}], FEATURES)
