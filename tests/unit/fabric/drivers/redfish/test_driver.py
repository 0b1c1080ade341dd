# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Redfish client above its resources: what a poll shows, and what is done, while a resource cannot be read."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Task
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish import driver
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable
from ansible_collections.composable.infra.tests.unit.fabric.drivers.redfish.fake_service import (
    BLOCKS,
    FABRIC,
    PARTS,
    UUIDS,
    FakeService,
    Json,
    block,
    composable,
    connection,
    switched,
)

M0 = UUIDS["m0"]
SHARED = {"1": ["i0", "i1", "t0", "t1"]}


def broken() -> Unavailable:
    """What one resource is answered with; the service works."""
    error = Unavailable("500: internal error")
    error.status = 500
    return error


def connected(documents: Json, monkeypatch: pytest.MonkeyPatch) -> driver.RedfishDriver:
    """A driver of a service in memory."""
    monkeypatch.setattr(driver, "Session", lambda *_unused: FakeService(documents).as_session())
    return driver.RedfishDriver(FabricConfig.from_dict({"manager": "sunfish", "endpoint": "http://x.example"}))


@pytest.mark.parametrize("path", [f"{BLOCKS}/a", f"{PARTS}/a"])
def test_a_poll_says_which_device_cannot_be_read_and_counts_the_others(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = composable([block("a"), block("b")])
    found = connected({**documents, path: broken()}, monkeypatch).snapshot(["A100"])
    assert found.free == {("A100", 1): 1}
    assert found.problems == {"devices/a": "device a is not offered: 500: internal error"}


def test_a_poll_says_which_fabric_is_barred(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = switched([connection("c", ["i0"], ["t0"])], SHARED, ["t0", "t1"])
    found = connected({**documents, f"{FABRIC}/Connections/c": broken()}, monkeypatch).snapshot(["A100"])
    assert found.free == {("A100", 1): 0}
    assert found.problems == {
        "connections/1": "fabric 1: all its devices count as attached: 500: internal error"}


def test_a_device_that_cannot_be_read_is_not_proven_to_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the block itself says which machine has it, and what its Id is."""
    documents = composable([block("a", "Composed", on=["m0"]), block("b")])
    for uid in ("a", "a-by-another-name"):
        with pytest.raises(Unavailable, match="500"):
            connected({**documents, f"{BLOCKS}/a": broken()}, monkeypatch).detach(M0, uid)
    for found in (documents, {**documents, f"{PARTS}/a": broken()}):
        assert connected(found, monkeypatch).detach(M0, "a-by-another-name") == Task(True)
