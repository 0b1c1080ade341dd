# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Only the publisher's own labels are taken off nodes, and only off those that have them."""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.plugins.filter.without_fabric_labels import FilterModule
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import Settings

without_fabric_labels = FilterModule().filters()["without_fabric_labels"]
ROW = {"index": 1, "cdi-model-name": "A100", "k8s-device-name": "a100", "driver-name": "gpu.nvidia.com",
       "cannot-coexist-with": [], "dra-attributes": {"productName": "A100", "uuid": ""}}


def node(name: str, *labels: str) -> dict[str, t.Any]:
    return {"metadata": {"name": name, "labels": dict.fromkeys(labels, "x") or None}}


def test_own_labels_go_and_others_stay() -> None:
    nodes = [node("a", "cohdi.io/fabric", "cohdi.io/a100", "cohdi.io/a100-size-max", "zone"),
             node("b", "zone"), node("c")]
    assert without_fabric_labels(nodes, {"device_info": [ROW]}) == [
        {"apiVersion": "v1", "kind": "Node",
         "metadata": {"name": "a", "labels": {"cohdi.io/a100": None, "cohdi.io/fabric": None}}}]


def test_names_are_those_that_the_publisher_writes() -> None:
    config = {"device_info": [ROW], "label_prefix": "gpu.example.com"}
    settings = Settings.from_dict(config)
    names = [settings.label("fabric"), *(settings.label(model.k8s_device_name) for model in settings.models)]
    (found,) = without_fabric_labels([node("a", *names)], config)
    assert set(found["metadata"]["labels"]) == set(names)


def test_without_a_configuration_the_fabrics_label_goes() -> None:
    (found,) = without_fabric_labels([node("a", "cohdi.io/fabric", "cohdi.io/a100")], {})
    assert list(found["metadata"]["labels"]) == ["cohdi.io/fabric"]
