# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container Device Interface specs: one file for each prepared claim, which the container runtime reads."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Collection
from pathlib import Path

from .container_edits import Edits
from .files import UNFINISHED, write_whole

Json = dict[str, t.Any]
CLASS = "claim"


class SpecFolder:
    """The specs of one driver in ``folder``; files of others are left alone."""

    def __init__(self, folder: Path, driver: str) -> None:
        self._folder, self._driver = folder, driver
        self._begin = f"{driver}-{CLASS}_"

    def id(self, uid: str, device: str) -> str:
        """By what name the container runtime finds a device of the claim with this uid."""
        return f"{self._driver}/{CLASS}={_name(uid, device)}"

    def path(self, uid: str) -> Path:
        """File of a claim."""
        return self._folder / f"{self._begin}{uid}.json"

    def write(self, uid: str, edits: Edits) -> None:
        """Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.path(uid), json.dumps(self.document(uid, edits), indent=2) + "\n")

    def document(self, uid: str, edits: Edits) -> Json:
        """The spec as JSON."""
        devices = [{"name": _name(uid, name), "containerEdits": own} for name, own in edits.devices.items()]
        found: Json = {"cdiVersion": edits.version, "kind": f"{self._driver}/{CLASS}", "devices": devices}
        return {**found, "containerEdits": edits.common} if edits.common else found

    def remove(self, uid: str) -> None:
        """Remove the claim's file, if it is there."""
        self.path(uid).unlink(missing_ok=True)

    def others(self, known: Collection[str]) -> dict[str, list[str]]:
        """Return the devices in the files of claims that are not known, by the claims' uids. Raises OSError."""
        found = {path.name.removeprefix(self._begin).removesuffix(".json"): path
                 for path in sorted(self._folder.glob(f"{self._begin}*.json"))}
        return {uid: _devices(uid, path) for uid, path in found.items() if uid not in known}

    def remove_unfinished(self) -> None:
        """Remove what somebody who was killed had begun to write. Raises OSError."""
        for path in self._folder.glob(f"{self._begin}*.json{UNFINISHED}"):
            path.unlink(missing_ok=True)


def _devices(uid: str, path: Path) -> list[str]:
    """Names of the devices in a claim's file; none in one that no container runtime could read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return [str(device["name"]).removeprefix(_name(uid, "")) for device in document["devices"]]
    except (ValueError, KeyError, TypeError):
        return []


def _name(uid: str, device: str) -> str:
    return f"{uid}-{device}"
