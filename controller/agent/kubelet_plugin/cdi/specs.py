# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container Device Interface specs.

Each prepared claim has one file, which the container runtime reads.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from ansible_collections.composable.infra.plugins.module_utils.model.value import Json

from .container_edits import Edits
from .files import UNFINISHED, write_whole

CLASS = "claim"


class SpecFolder:
    """The specs of one driver in ``folder``. Other files are left alone."""

    def __init__(self, folder: Path, driver: str) -> None:
        self._folder, self._driver = folder, driver
        self._begin = f"{driver}-{CLASS}_"

    def id(self, uid: str, device: str) -> str:
        """Return the name by which the container runtime finds a device of the claim with this uid.
        """
        return f"{self._driver}/{CLASS}={_name(uid, device)}"

    def path(self, uid: str) -> Path:
        """Return the path of a claim's file."""
        return self._folder / f"{self._begin}{uid}.json"

    def write(self, uid: str, edits: Edits) -> None:
        """Write a claim's file. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.path(uid), json.dumps(self.document(uid, edits), indent=2) + "\n")

    def document(self, uid: str, edits: Edits) -> Json:
        """Return the spec as JSON."""
        devices = [{"name": _name(uid, name), "containerEdits": own} for name, own in edits.devices.items()]
        found: Json = {"cdiVersion": edits.version, "kind": f"{self._driver}/{CLASS}", "devices": devices}
        return {**found, "containerEdits": edits.common} if edits.common else found

    def remove(self, uid: str) -> None:
        """Remove the claim's file, if it exists."""
        self.path(uid).unlink(missing_ok=True)

    def others(self, known: Collection[str]) -> dict[str, list[str]]:
        """Return the devices in the files of unknown claims, by the claims' uids.

        Raises OSError.
        """
        found = {path.name.removeprefix(self._begin).removesuffix(".json"): path
                 for path in sorted(self._folder.glob(f"{self._begin}*.json"))}
        return {uid: _devices(uid, path) for uid, path in found.items() if uid not in known}

    def remove_unfinished(self) -> None:
        """Remove files that a killed process left unfinished. Raises OSError."""
        for path in self._folder.glob(f"{self._begin}*.json{UNFINISHED}"):
            path.unlink(missing_ok=True)


def _devices(uid: str, path: Path) -> list[str]:
    """Return the names of the devices in a claim's file, none if no container runtime could read
    it.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return [str(device["name"]).removeprefix(_name(uid, "")) for device in document["devices"]]
    except (ValueError, KeyError, TypeError):
        return []


def _name(uid: str, device: str) -> str:
    return f"{uid}-{device}"
