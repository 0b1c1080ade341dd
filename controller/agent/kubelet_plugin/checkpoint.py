# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that records which claims are prepared with which devices.

It outlives the agent, since the kubelet asks only once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from ansible_collections.composable.infra.plugins.module_utils.model.value import Json

from .cdi.files import write_whole

log = logging.getLogger("composable.infra")
VERSION = 1
"""Increase it only if an older agent must not read the file.

An older agent ignores keys that it does not know.
"""
FILE = "checkpoint.json"
UNUSABLE = ".unusable"


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """A device of a prepared claim, as the allocation and this node identify it.

    ``admin``: the claim has administrative access, beside other claims. ``libraries``: the
    container gets the vendor's libraries too. ``consumed``: the claim's part of the capacity of a
    shared device.
    """

    request: str
    pool: str
    device: str
    address: str
    uuid: str = ""
    share_id: str = ""
    admin: bool = False
    libraries: bool = False
    consumed: Mapping[str, str] = field(default_factory=dict)

    @property
    def entry(self) -> str:
        """Its name in the claim's spec, which is unique even if a claim has several shares of one
        device.
        """
        return f"{self.device}-{self.share_id}" if self.share_id else self.device


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """A claim with at least one device."""

    uid: str
    namespace: str
    name: str
    devices: tuple[PreparedDevice, ...]


class Checkpoint:
    """The prepared claims, kept in the file at ``path``. Use it from one thread at a time.

    A damaged file, or a file of another version, is renamed and counts as lost. Then the Container
    Device Interface specs show which claims are prepared. The file keeps keys that a newer agent
    wrote for a claim or a device until that claim or device is removed from the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._claims: dict[str, PreparedClaim] = {}
        self._document: Json = {}
        try:
            document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
            self._claims = {} if document is None else _read(document)
            self._document = document or {}
        except (ValueError, KeyError, TypeError):
            aside = path.with_name(path.name + UNUSABLE)
            path.replace(aside)
            log.error("%s is not a checkpoint of this agent, and was renamed to %s. The agent finds prepared claims by "
                      "their Container Device Interface specs", path, aside.name)
            self._claims, self._document = {}, {}

    def get(self, uid: str) -> PreparedClaim | None:
        """Return the claim with this uid, None for none."""
        return self._claims.get(uid)

    def claims(self) -> list[PreparedClaim]:
        """Return all prepared claims."""
        return list(self._claims.values())

    def put(self, claim: PreparedClaim) -> None:
        """Note a claim, new or changed. Raises OSError."""
        self._write({**self._claims, claim.uid: claim})

    def drop(self, uid: str) -> None:
        """Forget a claim, if it is noted, also on a full disk.

        The file may keep the claim then. After a restart of the agent, the claim has its device
        until it is dropped again.
        """
        if uid in self._claims:
            left = {other: claim for other, claim in self._claims.items() if other != uid}
            try:
                self._write(left)
            except OSError as error:
                self._claims = left
                log.warning("cannot remove the claim %s from %s: %s", uid, self._path, error.strerror)

    def _write(self, claims: dict[str, PreparedClaim]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        before = {raw["uid"]: raw for raw in self._document.get("claims", ())}
        written = [_written(claim, before.get(claim.uid, {})) for claim in claims.values()]
        document = {**self._document, "version": VERSION, "claims": written}
        write_whole(self._path, json.dumps(document, indent=1) + "\n")
        self._claims, self._document = claims, document


def _written(claim: PreparedClaim, before: Json) -> Json:
    """Return a claim as the file has it.

    ``before``: the claim in the current file, with keys of a newer agent.

    An agent from before devices were shared can read a claim without shares.
    """
    said = {(raw["device"], raw.get("share_id", "")): raw for raw in before.get("devices", ())}
    devices = [_unknown(PreparedDevice, said.get((device.device, device.share_id), {}))
               | {name: value for name, value in asdict(device).items() if name != "consumed" or value}
               for device in claim.devices]
    return {**_unknown(PreparedClaim, before), **asdict(claim), "devices": devices}


def _unknown(kind: type[PreparedClaim | PreparedDevice], raw: Json) -> Json:
    """Return the keys of an object that this agent does not know."""
    known = {each.name for each in fields(kind)}
    return {name: value for name, value in raw.items() if name not in known}


def _read(document: Json) -> dict[str, PreparedClaim]:
    """Read a checkpoint.

    Raises ValueError, KeyError or TypeError if it is no checkpoint of VERSION.
    """
    if document["version"] != VERSION:
        raise ValueError(document["version"])
    return {claim.uid: claim for claim in map(_claim, document["claims"])}


def _claim(raw: Json) -> PreparedClaim:
    known = {each.name for each in fields(PreparedDevice)}
    devices = tuple(PreparedDevice(**{name: value for name, value in device.items() if name in known})
                    for device in raw["devices"])
    return PreparedClaim(str(raw["uid"]), str(raw["namespace"]), str(raw["name"]), devices)
