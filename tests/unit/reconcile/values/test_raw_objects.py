# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decisions read values. Only few places of `reconcile` read the JSON of an object."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4] / "plugins/module_utils/reconcile"
RAW = re.compile(r"""\[["'](?:metadata|spec|status)["']\]|\.get\(["'](?:metadata|spec|status)["']""")
# Folders that read objects by nature: `values` makes the values, `writers` write objects, a capture of `whatif` is
# a document, and `bookings` makes pods of templates.
BY_NATURE = frozenset({"values", "writers", "whatif", "bookings"})
# How often the others do. DeviceClasses, namespaces and ProvisioningRequests have no values. The planner of gated pods
# reads a waiting pod as kube-scheduler does. An object that cannot be read still has a node. A figure may only fall.
MOST = {"accounting": 4, "gating": 5, "node": 2, "oneshot": 3, "pool": 1, "prewarm": 3, "provisioning": 3, "runtime": 1,
        "state": 7, "timelines": 1}


@pytest.mark.parametrize("room", sorted(each.name for each in ROOT.iterdir() if any(each.glob("*.py"))))
def test_decisions_read_no_json(room: str) -> None:
    found = {f"{path.relative_to(ROOT)}:{number}: {line.strip()}" for path in (ROOT / room).rglob("*.py")
             for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if RAW.search(line)}
    if room not in BY_NATURE:
        assert len(found) <= MOST.get(room, 0), "\n".join(sorted(found))


def test_each_room_that_may_read_is_there() -> None:
    assert {each.name for each in ROOT.iterdir()} >= BY_NATURE | {*MOST}


def test_raw_json_has_one_type() -> None:
    """A manager's answers are not the API server's, and ``fabric`` knows no model."""
    top = ROOT.parents[2]
    files = (path for room in ("plugins", "controller") for path in (top / room).rglob("*.py"))
    found = {path.relative_to(top).as_posix() for path in files if "\nJson = dict" in path.read_text(encoding="utf-8")}
    assert {path for path in found if "/fabric/" not in path} == {"plugins/module_utils/model/value.py"}
    assert len(found) <= 3, sorted(found)
