# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines as hosts: names, variables, groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, Machine
from ansible_collections.composable.infra.plugins.plugin_utils.fabric_hosts import (
    FreeKey,
    Wanted,
    health,
    machine_hosts,
)
from ansible_collections.composable.infra.plugins.plugin_utils.hosts import group, unique_names

GPU = Device("d1", "A100 40G", fabric=1, machine="u1", health="OK", serial="GPU-1", name="device-1")
MACHINES = [Machine("u2", "node-1", 1), Machine("u1", "node-0", 1, (GPU,)), Machine("u3", "apart", None)]
FREE: dict[FreeKey, int] = {("A100 40G", 1): 3, ("H100", 1): 0, ("A100 40G", 2): 9}


def test_hosts_by_name_with_variables() -> None:
    hosts = machine_hosts(MACHINES, FREE, Wanted({"node-1": "10.0.0.2", "u1": "10.0.0.1"}))
    assert [h.name for h in hosts] == ["apart", "node-0", "node-1"]
    assert hosts[1].variables == {
        "composable_machine": "u1", "composable_name": "node-0", "composable_fabric": 1, "composable_health": "OK",
        "composable_free": {"A100 40G": 3, "H100": 0}, "composable_bmc": "10.0.0.1",
        "composable_devices": [{"uid": "d1", "model": "A100 40G", "kind": "gpu", "state": "attached", "health": "OK",
                                "serial": "GPU-1"}]}
    assert hosts[2].variables["composable_bmc"] == "10.0.0.2"
    assert "composable_bmc" not in hosts[0].variables
    assert hosts[0].variables["composable_free"] == {}


def test_groups() -> None:
    hosts = {h.name: h.groups for h in machine_hosts(MACHINES, FREE, Wanted({}))}
    assert hosts == {"apart": ["no_fabric", "without_devices"],
                     "node-0": ["fabric_1", "has_devices", "model_a100_40g", "free_a100_40g"],
                     "node-1": ["fabric_1", "without_devices", "free_a100_40g"]}


@pytest.mark.parametrize(("healths", "worst"), [([], "OK"), (["OK"], "OK"), (["OK", "Unknown"], "Unknown"),
                                                (["Warning", "Unknown"], "Warning"),
                                                (["OK", "Critical", "Warning"], "Critical")])
def test_health_is_the_worst(healths: list[str], worst: str) -> None:
    assert health([replace(GPU, health=h) for h in healths]) == worst


@pytest.mark.parametrize(("state", "unhealthy"), [("OK", False), ("Unknown", False), ("Warning", True),
                                                  ("Critical", True)])
def test_unhealthy_group(state: str, unhealthy: bool) -> None:
    (host,) = machine_hosts([Machine("u", "n", 1, (replace(GPU, health=state),))], {}, Wanted({}))
    assert ("unhealthy" in host.groups) is unhealthy


def test_fields_of_devices_as_asked_for() -> None:
    (host,) = machine_hosts([MACHINES[1]], {}, Wanted({}, fields=("uid", "size")))
    assert host.variables["composable_devices"] == [{"uid": "d1", "size": None}]


def test_names_that_several_machines_have() -> None:
    assert unique_names([("u1", "twin"), ("u2", "twin"), ("u3", "one")]) == {
        "u1": "twin-u1", "u2": "twin-u2", "u3": "one"}
    assert [h.name for h in machine_hosts(MACHINES, {}, Wanted({}, by_uid=True))] == ["u3", "u1", "u2"]


@pytest.mark.parametrize(("what", "name"), [(1, "x_1"), ("A100 40G", "x_a100_40g"), ("NVIDIA-L40S", "x_nvidia_l40s"),
                                            ("größe/x", "x_größe_x")])
def test_group_names_are_valid(what: object, name: str) -> None:
    assert group("x", what) == name
