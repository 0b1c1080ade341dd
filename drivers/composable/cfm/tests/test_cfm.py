# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver passes every conformance check, also while replies and requests get lost and the service restarts."""

from __future__ import annotations

import os
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.emulator import Emulator, machine_uuid
from ansible_collections.composable.infra.emulator.faults.profiles import PROFILES
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

NAME = "composable.cfm.cfm"
MODEL, SCARCE, SICK, MEMORY = "4GiB", "24GiB", "12GiB", "8GiB"
# 16 blocks of 1 GiB in each of 4 channels. The region of node-1 leaves 60 GiB, so the scarce size fits twice.
FABRIC: dict[str, t.Any] = {
    "timing": {"attach": 0, "detach": 0}, "managers": [NAME], "settings": {NAME: {"blocks": 16}},
    "models": [{"name": name, "kind": "memory", "size": int(name.removesuffix("GiB")) * 1024}
               for name in (MODEL, SCARCE, SICK, MEMORY)],
    "fabrics": [{"id": 1, "devices": [
        {"model": MODEL, "count": 15}, {"model": SCARCE, "count": 2}, {"model": SICK, "health": "Critical", "count": 5},
        {"model": MEMORY, "count": 7}, {"model": MODEL, "machine": "node-1"},
    ]}],
    "machines": [{"name": "node-0", "fabric": 1}, {"name": "node-1", "fabric": 1}],
}
QUICK = ("none", "lost-reply", "lost-request", "restart")
# Where the fault changes the very thing that the check is about.
APART = {
    ("device-warning", "an_unhealthy_device_is_refused"): "the unhealthy port comes up well enough",
    ("device-critical", "a_device_is_attached_and_detached"): "the emulator counts a region less",
    ("device-critical", "an_exhausted_model_is_refused"): "one of the few regions is not usable any more",
    ("doubled", "a_device_is_attached_and_detached"): "a compose that arrives twice leaves a region without a port",
    ("doubled", "an_exhausted_model_is_refused"): "a compose that arrives twice leaves a region without a port",
    ("vanishing-device", "parallel_attaches_get_different_devices"): "the id of the region that is gone is used again",
    ("vanishing-device", "an_exhausted_model_is_refused"): "one of the few regions is gone",
    ("vanishing-device", "an_unhealthy_device_is_refused"): "the region is gone when its port is read",
}
LEAVES_A_REGION = ("doubled", "storm")


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """Run the emulator of cfm-service."""
    with Emulator.run(FABRIC, tmp_path_factory.mktemp("emulator")) as running:
        yield running


def client(emulator: Emulator) -> FabricManager:
    """Return a client of the emulator."""
    return connect(FabricConfig.from_dict(emulator.fabric_config(read_timeout=5.0, attach_timeout=2.0)))


def subject(emulator: Emulator) -> Subject:
    """Return the manager under examination."""
    return Subject(
        fabric=client(emulator), connect=lambda: client(emulator), machine=machine_uuid("node-0"), model=MODEL,
        memory=MEMORY, scarce=SCARCE, sick=SICK, tenants=False, names=(machine_uuid("node-1"),), devices=16,
        attach_deadline=0.2, patience=15.0, pause=0.02,
    )


def cases() -> list[t.Any]:
    """Return every check with a few faults, with CONFORMANCE_PROFILES=all with all."""
    wanted = PROFILES if os.environ.get("CONFORMANCE_PROFILES") == "all" else QUICK
    return [pytest.param(check, profile, id=f"{profile}-{check.name}") for profile in wanted for check in CHECKS
            if (profile, check.name) not in APART]


@pytest.mark.parametrize(("check", "profile"), cases())
def test_the_driver_conforms(emulator: Emulator, check: Check, profile: str) -> None:
    """Whatever happens on the way, no memory is lost and none stays where it was not asked for."""
    emulator.reset(log=True)
    examined = subject(emulator)
    emulator.set_faults(profile=profile, seed=1)
    result = examine(examined, check)
    emulator.set_faults()
    free = examined.fabric.free(machine_uuid("node-0"), MODEL)
    examined.fabric.close()
    assert result.outcome in (PASSED, UNSUPPORTED), result.words
    moved = [device for device in emulator.state()["devices"] if device["state"] not in ("free", "vanished")]
    assert [device["machine"] for device in moved] == [machine_uuid("node-1")], "what it had from the start"
    assert free == 15 or profile in LEAVES_A_REGION, "a region without a port holds memory"
