# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make demo MODE=direct`` as a user starts it: claims keep their devices, and an idle device is had at once."""

from __future__ import annotations

import re

import pytest

from ansible_collections.composable.infra.tests.e2e.lab.demo_played import moments, played, rows


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints; it must end well."""
    return played("direct", tmp_path_factory.mktemp("demo"))


def test_it_tells_the_way_of_the_devices_in_its_order(printed: str) -> None:
    order = moments(printed, "pools are published", "user       creates pod train",
                    "train      allocated a pool device for node node-",
                    "train      condition FabricDeviceReady written",
                    "train      pod runs on node-", "all pods run", "user       deletes pod train",
                    "its GPU is back in the pool", "the device of pod infer is idle on node-",
                    "user       creates pod again", "again      pod runs on node-", "pod again runs")
    assert order == sorted(order)
    assert "condition FabricDeviceReschedule" not in printed


@pytest.mark.parametrize("pod", ["train", "infer", "big"])
def test_claim_keeps_what_was_attached_for_it(printed: str, pod: str) -> None:
    row = rows(printed)[pod]
    assert row["way"] == "direct"
    seconds = [float(row[name]) for name in (
        "device of the pool allocated", "attach requested", "attached by the fabric",
        "gate removed, or condition written", "bound, or reallocated", "pod started")]
    assert seconds == sorted(seconds), row
    assert row["on the bus, driver, in the slice"] == "-", "no slice of the node shows it"


def test_idle_device_needs_no_attach_and_no_tick(printed: str) -> None:
    row = rows(printed)["again"]
    assert row["way"] == "idle device"
    assert (row["attach requested"], row["gate removed, or condition written"]) == ("-", "-")


def test_it_tells_each_thing_once_and_names_nothing_that_is_gone(printed: str) -> None:
    lines = [line[9:].strip() for line in printed.splitlines() if " s  " in line[:12]]
    assert sorted({line for line in lines if lines.count(line) > 1}) == []
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", printed), "UUIDs are short"
    assert "://" not in printed[printed.index("  seconds  "):]
    assert "on the bus\n" not in printed, "steps of a node are for VERBOSE=1"
