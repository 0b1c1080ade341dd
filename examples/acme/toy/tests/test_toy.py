# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver passes every conformance check, also if replies or requests are lost or the manager
restarts.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.emulator import Emulator, machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.checks import (
    CHECKS,
    PASSED,
    UNSUPPORTED,
    Check,
    examine,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.subject import Subject
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import FabricError

NAME = "acme.toy.toy"
MODEL, SCARCE, SICK, MEMORY = "T-800", "T-1000", "T-X", "CXL-64G"
FABRIC: dict[str, t.Any] = {
    "timing": {"attach": 0, "detach": 0}, "managers": [NAME], "settings": {NAME: {"rack": "r1"}},
    "models": [{"name": name} for name in (MODEL, SCARCE, SICK)] + [{"name": MEMORY, "kind": "memory", "size": 65536}],
    "fabrics": [{"id": 1, "devices": [
        {"model": MODEL, "count": 8}, {"model": SCARCE, "count": 2}, {"model": SICK, "health": "Critical"},
        {"model": MEMORY, "count": 2}, {"model": MODEL, "machine": "node-1"},
    ]}],
    "machines": [{"name": "node-0", "fabric": 1}, {"name": "node-1", "fabric": 1}],
}
# The faults that a driver easily forgets. `emulator fault --help` lists all.
PROFILES = ("none", "lost-reply", "lost-request", "restart")


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """Run the emulator of the Toy Composer."""
    with Emulator.run(FABRIC, tmp_path_factory.mktemp("emulator")) as running:
        yield running


def client(emulator: Emulator) -> FabricManager:
    """Return a client of the emulator."""
    given = emulator.fabric_config(read_timeout=5.0, attach_timeout=2.0, driver_options={"rack": "r1"})
    return connect(FabricConfig.from_dict(given))


def subject(emulator: Emulator) -> Subject:
    """Return the manager under examination."""
    return Subject(
        fabric=client(emulator), connect=lambda: client(emulator), machine=machine_uuid("node-0"), model=MODEL,
        memory=MEMORY, scarce=SCARCE, sick=SICK, tenants=False, names=("node-1",), devices=14, attach_deadline=0.2,
        patience=15.0, pause=0.02,
    )


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_driver_conforms(emulator: Emulator, check: Check, profile: str) -> None:
    """Check that no device is lost, and that none stays where it was not requested."""
    emulator.reset(log=True)
    examined = subject(emulator)
    emulator.set_faults(profile=profile, seed=1)
    result = examine(examined, check)
    examined.fabric.close()
    assert result.outcome in (PASSED, UNSUPPORTED), result.words
    moved = [device for device in emulator.state()["devices"] if device["state"] != "free"]
    assert [device["machine"] for device in moved] == [machine_uuid("node-1")], "what it had from the start"


def test_another_rack_is_missing(emulator: Emulator) -> None:
    """Check that the option of the driver reaches the CDI Manager."""
    config = emulator.fabric_config(driver_options={"rack": "elsewhere"})
    with pytest.raises(FabricError, match="list the hosts"):
        connect(FabricConfig.from_dict(config)).machines()
