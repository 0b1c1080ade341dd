# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of a simulated node, switched while it runs, in the file `faults.json` of its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.composable.infra.lab.errors import LabError

NO_EVENT, NO_PROBE, NO_BIND = "no-event", "no-probe", "no-bind"
NO_ROOM, NARROW_LINK, DRIVER_FAILS = "no-room", "narrow-link", "driver-fails"
REMOVAL_HANGS, PLUGIN_FAILS = "removal-hangs", "plugin-fails"
PLUGIN_NEEDS_GPU, PLUGIN_HOLDS, PLUGIN_IS_OLD = "plugin-needs-gpu", "plugin-holds", "plugin-is-old"
KINDS: Mapping[str, str] = {
    NO_EVENT: "no hot-plug event comes: only a rescan finds a device",
    NO_PROBE: "no driver is bound to a new device by itself",
    NO_BIND: "the driver refuses every device",
    NO_ROOM: "the BARs of a new device get no addresses",
    NARROW_LINK: "the link of a new device comes up with 4 of 16 lanes",
    DRIVER_FAILS: "the driver cannot start a device: RmInitAdapter failed",
    REMOVAL_HANGS: "a removal does not end until this is switched off",
    PLUGIN_FAILS: "the vendor's DRA plugin does not start",
    PLUGIN_NEEDS_GPU: "the vendor's DRA plugin does not start on a node without a GPU, as beside a driver of the host",
    PLUGIN_HOLDS: "the vendor's DRA plugin has each GPU open that it found at its start (on real nodes only)",
    PLUGIN_IS_OLD: "the vendor's DRA plugin serves the kubelet's API v1beta1 only (on real nodes only)",
}


def read(folder: Path) -> frozenset[str]:
    """Return the faults that are on. Raise LabError if the file has a value that is not allowed."""
    path = folder / "faults.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return frozenset()
    except ValueError as error:
        raise LabError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise LabError(f"{path} must hold an object of fault kinds and true or false")
    return frozenset(check_kind(kind) for kind, on in found.items() if on)


def switch(folder: Path, kind: str, on: bool) -> frozenset[str]:
    """Switch one fault and return the faults that are on now. Raise LabError for an unknown
    kind."""
    wanted = read(folder) - {check_kind(kind)} | ({kind} if on else set())
    temporary = folder / "faults.new"
    temporary.write_text(json.dumps(dict.fromkeys(sorted(wanted), True)) + "\n", encoding="utf-8")
    # Replaced in one step, so that a reader sees the old or the new faults.
    temporary.replace(folder / "faults.json")
    return wanted


def check_kind(kind: str) -> str:
    """Return `kind` if it is one of KINDS, else raise LabError."""
    if kind not in KINDS:
        raise LabError(f"fault {kind!r} is not allowed: use one of {', '.join(KINDS)}")
    return kind
