# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Feature gates of the vendor's DRA driver: preflight refuses what the driver's source refuses."""

from __future__ import annotations

import itertools
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.plugins.plugin_utils.stack.findings import STOP, WARN
from ansible_collections.composable.infra.plugins.plugin_utils.stack.matrix import matrix
from ansible_collections.composable.infra.plugins.plugin_utils.stack.preflight import judge
from ansible_collections.composable.infra.tests.unit.stack.cases import cluster, plan

RECORDED: dict[str, t.Any] = yaml.safe_load(
    (Path(__file__).parent / "dra_feature_gates.yml").read_text(encoding="utf-8"))
GATES = sorted([*RECORDED["on"], *RECORDED["off"]])
# With these the plugin starts and holds every GPU.
HOLDING = {"DynamicMIG", "NVMLDeviceHealthCheck"}


def found(level: str, **gates: bool) -> list[str]:
    return [f"{f.found} -> {f.change}" for f in judge(cluster(), plan(dra_feature_gates=gates))
            if (f.level, f.check) == (level, "feature gates of the DRA driver")]


def refused(**gates: bool) -> list[str]:
    return found(STOP, **gates)


def ends(**gates: bool) -> bool:
    """Whether the plugin ends with an error, by what its source says, or its guide forbids it."""
    on = {name for name, is_on in {**dict.fromkeys(RECORDED["on"], True), **gates}.items() if is_on}
    return (any(on.issuperset(pair) for pair in (*RECORDED["exclusive"], *RECORDED["documented_exclusive"]))
            or any(gate in on and required not in on for gate, required in RECORDED["requires"]))


def test_the_table_is_of_the_chart_that_is_installed() -> None:
    assert RECORDED["tag"] == f"v{matrix()['charts']['nvidia_dra_driver']['version']}"
    assert sorted(matrix()["nvidia_dra_driver"]["gates_on"]) == sorted(RECORDED["on"])


@pytest.mark.parametrize("gates", [dict(zip(pair, values, strict=True)) for pair in itertools.combinations(GATES, 2)
                                   for values in itertools.product((True, False), repeat=2)], ids=str)
def test_two_gates_are_refused_where_the_plugin_ends(gates: dict[str, bool]) -> None:
    assert bool(refused(**gates)) == ends(**gates)
    assert len(found(WARN, **gates)) == sum(gates.get(name, False) for name in HOLDING)


def test_the_message_says_what_to_change() -> None:
    where = "nvidia_dra_driver_feature_gates"
    assert refused(DeviceMetadata=True) == [
        "DeviceMetadata requires PassthroughSupport, which is off -> "
        f"Set PassthroughSupport to true or DeviceMetadata to false in {where}"]
    assert found(WARN, NVMLDeviceHealthCheck=True) == [
        "with NVMLDeviceHealthCheck the plugin has every GPU open: the node agent restarts it once more for each GPU "
        "that leaves a node, and without node agents no GPU leaves -> "
        f"Keep controllers_node_operations at agent, or remove NVMLDeviceHealthCheck from {where}"]
    assert f"DynamicMIG and MPSSupport exclude each other -> Remove one of them from {where}" in refused(
        DynamicMIG=True, MPSSupport=True)
    assert refused() == refused(PassthroughSupport=True, DeviceMetadata=True) == []
