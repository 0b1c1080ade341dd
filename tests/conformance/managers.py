# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The managers that the suite examines, one row each, and the fabric that all of them stand before."""

from __future__ import annotations

import contextlib
import os
import typing as t
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator, machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.subject import Subject
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.registry import MANAGERS
from ansible_collections.composable.infra.tests.conformance.kept import KeptEmulator

# `make conformance FULL=1` takes every fault profile, otherwise each test takes a few.
EVERY_PROFILE: t.Final = os.environ.get("CONFORMANCE_PROFILES") == "all"
# One model has letters that must survive queries, filters and bodies.
MODEL, SCARCE, SICK, MEMORY = "NVIDIA-A100-PCIE-40GB", "L40S größe 節点", "NVIDIA-H100-PCIe", "CXL-64G"
MACHINE, SECOND, THEIRS = machine_uuid("node-0"), machine_uuid("node-1"), machine_uuid("theirs")
UNICODE = "knoten-äöü-節点-🚀"
OTHER_TENANT = "7e63fd31-0a5c-4d1b-9a52-c0de00000002"


@dataclass(frozen=True)
class Row:
    """A manager, and settings of its emulator. ``variant``: what it does in another way than the manager's first row.

    ``at_most``: how many devices at once can be taken back. ``apart``: checks that it cannot pass, and why.
    """

    manager: str
    settings: Mapping[str, t.Any] = field(default_factory=dict)
    variant: str = ""
    at_most: int = 2
    apart: Mapping[str, str] = field(default_factory=dict)


ROWS: t.Final[Mapping[str, Row]] = {
    "fm": Row("fm"),
    "cm": Row("cm"),
    "cm-complete": Row("cm", {"device_count": "complete"}, "a device counts only once it has come"),
    "nec": Row("nec"),
    "nec-cpus": Row("nec", {"generation": "cpus"}, "devices are connected to CPUs (open source CDIM)"),
    "nec-sequential": Row("nec", {"sequential": True, "uuids": True}, "one procedure after the other, reports UUIDs"),
    "sunfish": Row("sunfish"),
    "sunfish-numbers": Row(
        "sunfish", {"agents": False}, "no agents: a number of GPUs per node, as CoHDI asks", at_most=1,
        apart={
            "a_repeated_token_loses_no_device":
                "only a number is reported, so none of two devices of a model can be detached",
        },
    ),
    "redfish": Row("redfish"),
    "redfish-tasks": Row(
        "redfish", {"dialects": ["AddResourceBlock"], "asynchronous": True, "strict_etags": True, "page": 3,
                    "expand": False},
        "202 and a task monitor, the system's ETag too, pages of three, no $expand",
    ),
    "redfish-connections": Row("redfish", {"dialects": ["Connections"]}, "connections only"),
    "redfish-zones": Row("redfish", {"dialects": ["Zones"]}, "zones by PATCH with If-Match only"),
    "redfish-compose": Row("redfish", {"dialects": ["Compose"]}, "a manifest of the Compose action only"),
    "redfish-compose-one-sided": Row(
        "redfish", {"dialects": ["Compose"], "one_sided": True}, "Compose, only blocks name their system"),
}
MAIN: t.Final = tuple(name for name, row in ROWS.items() if not row.variant)


def rows_of(manager: str) -> list[str]:
    """Names of a manager's rows."""
    return [name for name, row in ROWS.items() if row.manager == manager]


def params(names: Iterable[str]) -> list[t.Any]:
    """Parameters of a test: rows by name, the tests of one row for one worker, which starts its emulator once."""
    return [pytest.param(name, marks=pytest.mark.xdist_group(name), id=name) for name in names]


def document(row: Row, devices: int = 8) -> dict[str, t.Any]:
    """A small fabric with something of everything."""
    tenants = bool(knows_tenants(row))
    return {
        "timing": {"attach": 0, "detach": 0},
        "managers": [row.manager],
        "settings": {row.manager: dict(row.settings)},
        "models": [{"name": n} for n in (MODEL, SCARCE, SICK)] + [{"name": MEMORY, "kind": "memory", "size": 65536}],
        "fabrics": [{"id": 1, "devices": [
            {"model": MODEL, "count": devices}, {"model": SCARCE, "count": 2}, {"model": SICK, "health": "Critical"},
            {"model": MEMORY, "count": 2}, {"model": MODEL, "machine": UNICODE},
            *([{"model": MODEL, "machine": "theirs"}] if tenants else []),
        ]}],
        "machines": [
            {"name": "node-0", "fabric": 1}, {"name": "node-1", "fabric": 1}, {"name": UNICODE, "fabric": 1},
            *([{"name": "theirs", "fabric": 1, "tenant": OTHER_TENANT}] if tenants else []),
        ],
    }


def knows_tenants(row: Row) -> bool:
    """Whether a client has to name its tenant."""
    return "tenant" in MANAGERS[row.manager].requires


def client(emulator: Emulator, row: Row, **options: t.Any) -> FabricManager:
    """A client of the emulated manager."""
    patience = {"connect_timeout": 5.0, "read_timeout": 5.0, "attach_timeout": 2.0}
    return connect(FabricConfig.from_dict(emulator.fabric_config(row.manager, **{**patience, **options})))


@contextlib.contextmanager
def subject(emulator: Emulator, row: Row, **more: t.Any) -> Iterator[Subject]:
    """The manager under examination, with a client that is closed afterwards."""
    fabric = client(emulator, row)
    try:
        yield Subject(**{
            "fabric": fabric, "connect": lambda: client(emulator, row), "machine": MACHINE, "model": MODEL,
            "memory": MEMORY, "scarce": SCARCE, "sick": SICK, "names": (UNICODE,), "tenants": knows_tenants(row),
            "foreign": THEIRS, "attach_deadline": 0.2, "patience": 15.0, "pause": 0.02, "at_most": row.at_most,
            **more,
        })
    finally:
        fabric.close()


class Emulators:
    """One running emulator per row, started when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Emulator] = {}

    def get(self, name: str) -> Emulator:
        """The row's emulator, its devices as at first and without faults."""
        if name not in self._running:
            self._running[name] = KeptEmulator.run(document(ROWS[name]), self._folder / name)
        self._running[name].reset(log=True)
        return self._running[name]

    def stop(self) -> None:
        """Stop all."""
        for emulator in self._running.values():
            emulator.stop()
