# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an agent of today has stored is read by an older one, which adds to it, and back.

A pod is prepared once and an attach is requested once. Nothing may be lost with a change of version.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from dataclasses import asdict
from pathlib import Path

import pytest

from ansible_collections.composable.infra.controller.agent import host_files
from ansible_collections.composable.infra.controller.agent.kubelet_plugin import checkpoint
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.node import evidence

pytestmark = pytest.mark.e2e
Json = dict[str, t.Any]
PACKAGE = "ansible_collections.composable.infra"
ON, BEFORE = ("0000:10:00.0", "0000:20:00.0"), ("0000:01:00.0",)
SHARED = {"share_id": "s-1", "consumed": {"memory": "4Gi"}}
ASKED = 1_790_000_000.0
# Run by the older version: read what lies in a folder, and prepare another claim.
READER = f"""
import json, sys
from dataclasses import asdict
from pathlib import Path
from {PACKAGE}.controller.agent import host_files
from {PACKAGE}.controller.agent.kubelet_plugin import checkpoint
from {PACKAGE}.plugins.module_utils.kube.objects import cohdi
from {PACKAGE}.plugins.module_utils.node import evidence

folder, given = Path(sys.argv[1]), json.loads(sys.stdin.read())
prepared = checkpoint.Checkpoint(folder / checkpoint.FILE)
read = [asdict(claim) for claim in prepared.claims()]
prepared.put(checkpoint.PreparedClaim("u-old", "default", "old", (
    checkpoint.PreparedDevice("gpu", "node-0", "gpu-9", "0000:90:00.0"),)))
found = evidence.Evidence.parse(given["evidence"])
machine, asked, present = cohdi.read_intent(given["resource"])
print(json.dumps({{
    "file": host_files.__file__,
    "claims": read,
    "before": sorted(host_files.DevicesBefore(folder, lambda: ["0000:99:00.0"]).addresses()),
    "evidence": found and asdict(found),
    "again": found and found.to_json(),
    "intent": [machine, asked, sorted(present)],
    "unreadable": cohdi.intent_unreadable(given["resource"]),
    "written": cohdi.attach_intent(machine, asked, present),
}}))
"""


def claim(name: str, **more: t.Any) -> checkpoint.PreparedClaim:
    """A claim with one device, of which `more` is known."""
    device = checkpoint.PreparedDevice("gpu", "node-0", name, ON[0], f"GPU-{name}", **more)
    return checkpoint.PreparedClaim(f"u-{name}", "default", name, (device,))


CLAIMS = (
    claim("plain"),
    claim("watched", admin=True),
    claim("vendor", libraries=True),
    claim("shared", **SHARED),
)
STEPS = (*evidence.STEPS_UP, *evidence.STEPS_DOWN[:1], *evidence.STEPS_OF_MEMORY)
TOLD = evidence.Evidence(
    evidence.RELEASING,
    "d-1",
    uuid="GPU-1",
    address=ON[0],
    numa_node=1,
    link=evidence.Link(16, 16, "32 GT/s", "32 GT/s"),
    steps=tuple(evidence.Step(step, "2026-11-26T00:00:00Z") for step in STEPS),
    trouble=evidence.Trouble(evidence.SANITIZING, "at work", "2026-11-26T00:00:00Z"),
    release="2026-11-26T00:00:00.000000Z",
)


def resource(intent: str) -> Json:
    """A ComposableResource whose attach was requested."""
    return {"metadata": {"annotations": {cohdi.ATTACH: intent}}}


def read_by(version: Path, folder: Path) -> Json:
    """Return what the older version reads in `folder`, and of an evidence and an intent of today."""
    given = {
        "evidence": TOLD.to_json(),
        "resource": resource(cohdi.attach_intent("m", ASKED, ["d-0"])),
    }
    done = subprocess.run(
        [sys.executable, "-c", READER, str(folder)],
        input=json.dumps(given),
        env={**os.environ, "PYTHONPATH": str(version)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: Json = json.loads(done.stdout)
    assert found["file"].startswith(str(version))
    return found


def plain(value: t.Any) -> t.Any:
    """The value as JSON has it."""
    return json.loads(json.dumps(value))


def test_older_agent_reads_what_an_agent_of_today_has_stored_and_back(
    old_version: Path, tmp_path: Path
) -> None:
    # The agent of today prepares claims, notes what was there before it, and writes evidence.
    prepared = checkpoint.Checkpoint(tmp_path / checkpoint.FILE)
    for each in CLAIMS:
        prepared.put(each)
    assert host_files.DevicesBefore(tmp_path, lambda: [*BEFORE]).addresses() == {*BEFORE}

    found = read_by(old_version, tmp_path)
    assert found["claims"] == plain([asdict(each) for each in CLAIMS])
    assert found["before"] == [*BEFORE], "the older agent does not look again"
    assert found["evidence"] == plain(asdict(TOLD))
    assert found["intent"] == ["m", ASKED, ["d-0"]]
    assert found["unreadable"] is False

    # The agent of today returns, and reads what the older one has stored.
    again = checkpoint.Checkpoint(tmp_path / checkpoint.FILE)
    assert [each.uid for each in again.claims()] == [*(each.uid for each in CLAIMS), "u-old"]
    assert tuple(again.claims()[:-1]) == CLAIMS
    assert not (tmp_path / (checkpoint.FILE + checkpoint.UNUSABLE)).exists()
    assert host_files.DevicesBefore(tmp_path, lambda: [*ON]).addresses() == {*BEFORE}
    assert evidence.Evidence.parse(found["again"]) == TOLD
    assert cohdi.read_intent(resource(found["written"])) == ("m", ASKED, frozenset(["d-0"]))
    assert cohdi.intent_unreadable(resource(found["written"])) is False
