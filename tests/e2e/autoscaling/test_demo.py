# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make demo MODE=autoscale`` as a user starts it, with the stand-in: devices come by a call and go by the next."""

from __future__ import annotations

import re

import pytest

from ansible_collections.composable.infra.lab.demo import autoscale
from ansible_collections.composable.infra.tests.e2e.lab.demo_played import moments, played, rows

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints; it must end well."""
    return played(autoscale.MODE, tmp_path_factory.mktemp("demo"))


def test_it_tells_the_way_of_the_devices_in_its_order(printed: str) -> None:
    order = moments(printed, "controller shows the fabric live at http",
                    "user       creates pod train, which asks for 1 x nvidia.com/gpu",
                    "provider   AttachDecided pod default/train", "train      pod runs on node-", "all pods run",
                    "user       deletes pods", "the devices are back in the fabric",
                    "the nodes stay, and are excluded from Cluster")
    assert order == sorted(order)
    after = printed[order[5]:order[6]]
    assert "provider   IdleDevicesReturn node node-" in after, "that the node is not needed is what returns them"


def test_it_says_who_asks(printed: str) -> None:
    assert ("a stand-in for Cluster Autoscaler asks" in printed) != ("cluster-autoscaler asks the provider" in printed)


@pytest.mark.parametrize(("pod", "devices"), [("train", 1), ("big", 2)])
def test_the_table_has_the_call_and_what_came_of_it(printed: str, pod: str, devices: int) -> None:
    row = rows(printed)[pod]
    assert row["way"] == "autoscaler"
    seconds = [float(row[name]) for name in (
        "node chosen by the provider", "attach requested", "attached by the fabric",
        "on the bus, driver, in the slice", "bound, or reallocated", "pod started")]
    assert seconds == sorted(seconds), row
    assert printed.count(f"AttachDecided pod default/{pod}:") == 1, "one decision"
    found = re.search(rf"{pod} +allocated (.+) on node", printed)
    assert found
    assert len(found[1].split(", ")) == devices
