# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Status of a ComposabilityRequest: what CoHDI's own readers of it expect."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.node.compose import request_status
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import ComposableResource
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, attached, online, resource

SPEC = {"type": "gpu", "model": A100, "size": 1, "target_node": "node-0", "allocation_policy": "samenode"}


def test_running_when_all_are_online() -> None:
    status = request_status(SPEC, [online("r")], "")
    assert status == {
        "state": "Running", "scalarResource": SPEC,
        "resources": {"r": {"state": "Online", "node_name": "node-0", "device_id": "GPU-r",
                            "cdi_device_id": "device-r"}}}


def test_request_of_size_zero_is_running_with_nothing() -> None:
    assert request_status({**SPEC, "size": 0}, [], "") == {"state": "Running", "scalarResource": {**SPEC, "size": 0}}


@pytest.mark.parametrize("children", [
    [], [attached("r")], [resource("r")], [online("r"), online("s")], [online("r", deleting=True)],
], ids=["none yet", "not visible", "not attached", "one too many", "leaving"])
def test_updating_until_it_is_as_wanted(children: list[ComposableResource]) -> None:
    assert request_status(SPEC, children, "")["state"] == "Updating"


def test_leaving_resource_does_not_keep_it_from_running() -> None:
    status = request_status(SPEC, [online("s", deleting=True, state="Detaching"), online("r")], "")
    assert status["state"] == "Running"
    assert list(status["resources"]) == ["r", "s"]
    assert status["resources"]["s"]["state"] == "Detaching"


def test_resource_without_a_state_is_attaching() -> None:
    status = request_status(SPEC, [resource("r", state="", error="refused")], "")
    assert status["resources"]["r"] == {"state": "Attaching", "node_name": "node-0", "error": "refused"}


def test_error_is_given() -> None:
    assert request_status(SPEC, [], "no free device")["error"] == "no free device"
    assert "error" not in request_status(SPEC, [], "")


def test_spec_is_copied_and_not_shared() -> None:
    status = request_status(SPEC, [], "")
    status["scalarResource"]["size"] = 9
    assert SPEC["size"] == 1
