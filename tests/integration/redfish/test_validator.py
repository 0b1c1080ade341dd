# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DMTF's own validator on what the emulator serves, with DMTF's schema files: no errors."""

from __future__ import annotations

import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.tests.integration.redfish import published
from ansible_collections.composable.infra.tests.integration.redfish.conftest import (
    EVERYTHING,
    GPU,
    MEMORY,
    NODE_0,
    Bench,
    Client,
)

SERVICES: t.Final[dict[str, dict[str, t.Any]]] = {
    "all but zones": {"dialects": EVERYTHING, "asynchronous": True},
    "zones": {"dialects": ["Zones"], "page": 2, "expand": False},
}
LINE = re.compile(r"Validating (\S+)\.\.\.\n  - Pass: (\d+), Warn: (\d+), Fail: (\d+)")
# What the validator must have looked at, or it looked at too little.
SEEN = ("/redfish/v1/", r".*/Systems/[\w-]+", r".*/Chassis/[\w-]+", r".*/Processors/[\w-]+", r".*/MemoryChunks/1",
        ".*/SessionService", ".*/TaskService", r".*/Sessions/\w+")
SEEN_OF = {
    "all but zones": (
        ".*/CompositionService", r".*/ResourceBlocks/[\w-]+", r".*/ResourceZones/1", r".*/Endpoints/[\w-]+",
        r".*/Connections/[\w-]+", ".*/Switches/switch-1", ".*/Switches/switch-1/Ports/1",
        ".*/Tasks/1"),
    "zones": (".*/Fabrics/1", r".*/Zones/[\w-]+", r".*/Endpoints/[\w-]+"),
}


@pytest.mark.parametrize("name", SERVICES)
def test_the_validator_finds_no_errors(name: str, start: Bench, client: Client, tmp_path: Path) -> None:
    schemas = published.schemas()
    emulator = start(SERVICES[name])
    fabric = client(emulator)
    fabric.attach(NODE_0, GPU, 2)
    fabric.attach(NODE_0, MEMORY, kind="memory")
    report = validate(emulator, schemas, tmp_path / "report")
    assert report.wrong == {}, report.output[-3000:]
    assert report.status == 0, report.output[-3000:]
    for path in (*SEEN, *SEEN_OF[name]):
        assert any(re.fullmatch(path, seen) for seen in report.checks), f"the validator looked at no {path}"


def test_the_validator_would_find_an_error(start: Bench, tmp_path: Path) -> None:
    """With a resource that breaks its schema in the service's place, the same call fails."""
    schemas = published.schemas()
    wrong = tmp_path / "wrong" / "redfish" / "v1" / "Systems" / NODE_0
    wrong.mkdir(parents=True)
    (wrong / "index.json").write_text(
        f'{{"@odata.id": "/redfish/v1/Systems/{NODE_0}", "@odata.type": "#ComputerSystem.v1_27_0.ComputerSystem", '
        '"Id": 7, "Name": "x", "PowerState": "Sideways"}', encoding="utf-8"
    )
    report = validate(start(), schemas, tmp_path / "report", "--mockup", str(tmp_path / "wrong" / "redfish" / "v1"),
                      "--payload", "Single", f"/redfish/v1/Systems/{NODE_0}")
    assert report.status != 0
    assert list(report.wrong) == [f"/redfish/v1/Systems/{NODE_0}"], report.output[-3000:]


class Report:
    """What the validator said. ``checks``: by path how many passed, warned and failed."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.status = done.returncode
        self.output = done.stdout + done.stderr
        found = LINE.findall(self.output)
        self.checks = {path: (int(passed), int(warned), int(failed)) for path, passed, warned, failed in found}

    @property
    def wrong(self) -> dict[str, tuple[int, int, int]]:
        """Resources with a warning or an error."""
        return {path: numbers for path, numbers in self.checks.items() if numbers[1:] != (0, 0)}


def validate(emulator: Emulator, schemas: Path, folder: Path, *more: str) -> Report:
    folder.mkdir()
    told = emulator.credentials
    command = [
        str(Path(sys.executable).with_name("rf_service_validator")), "-r", emulator.url, "-u", told["username"],
        "-p", told["password"], "--authtype", "Session", "--schema_directory", str(schemas), "--skipschema",
        "--logdir", str(folder), "--config", str(folder / "none.ini"), *more,
    ]
    return Report(subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=300))
