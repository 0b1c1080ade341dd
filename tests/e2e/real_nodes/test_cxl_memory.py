# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A claim for CXL memory on a real node with the handover direct: a manager of Redfish composes it, the node agents'
own driver gives it to the container, and it goes back when the claim is over. Bus, driver and ``cxl`` are simulated.
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.lab.demo.installed import Installed
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.lab.names import OWN_DRIVER
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, slices
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.support.support import attached, wait_for

Json = dict[str, t.Any]
MODEL, NODE, POOL = "Example-CXL-64G", "real-0", "example-cxl-64g-fabric1"


@pytest.fixture(scope="module")
def stage(stage_factory: StageFactory) -> Stage:
    """A real node without memory of the fabric, which has one device of it."""
    made = stage_factory(nodes=0, real_nodes=1, devices={MODEL: 1}, managers=("redfish",), handover="direct")
    Installed(made)
    return made


def result(stage: Stage, name: str) -> Json:
    """What a claim was allocated."""
    (found,) = claims.results(stage.client.get(CLAIMS, name, "default"))
    return dict(found)


def shown(stage: Stage) -> list[Json]:
    """Devices in the slices of the node."""
    return [device for item in stage.client.list(SLICES).items if slices.node(item) == NODE
            for device in slices.devices(item)]


def sanitized(stage: Stage) -> int:
    """How often the kernel of the node has sanitized memory."""
    log = (stage.lab.node_folder(NODE) / "dev/kmsg").read_text(encoding="utf-8")
    return log.count("Sanitization operation ended")


def test_claim_for_memory_runs_with_the_device_that_was_attached_for_it(stage: Stage) -> None:
    stage.claim("train", MODEL)
    stage.pod_only("train", NODE)
    words = stage.first_line("train", seconds=90.0).split()
    (serial,) = attached(stage)
    assert serial.startswith("0x")
    (given,) = [word for word in words if word.startswith("CXL_MEMORY_DEVICE_")]
    assert given.endswith(f"={serial}")
    assert "cxl" in stage.printed("train").split()
    assert "cxl" not in stage.printed("train", "beside").split()
    (resource,) = stage.client.list(COMPOSABLE_RESOURCES).items
    assert (resource["spec"]["type"], resource["status"]["device_id"]) == ("cxlmemory", serial)
    one = result(stage, "train")
    assert (one["driver"], one["pool"]) == (OWN_DRIVER, POOL), "the claim keeps what it was allocated"
    assert not shown(stage)
    assert sanitized(stage) == 1, "before the claim got it"
    stage.delete_pod("train")
    wait_for("the memory is back on the fabric", lambda: not attached(stage), 60)
    wait_for("nothing of it is left", lambda: not stage.client.list(COMPOSABLE_RESOURCES).items)
    assert sanitized(stage) == 2, "and before it left the node"
