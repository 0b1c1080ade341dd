# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which claims are prepared with which devices, in a file that outlives the agent: the kubelet asks only once."""

from __future__ import annotations

import json
import logging
import typing as t
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .cdi.files import write_whole

log = logging.getLogger("composable.infra")
VERSION = 1
FILE = "checkpoint.json"
UNUSABLE = ".unusable"


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """A device of a claim: what the allocation says, and what it is on this node.

    ``admin``: access for administration, beside whoever uses it. ``libraries``: the container gets the vendor's, too.
    ``consumed``: the claim's part of the capacity of a device that it shares.
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
        """What stands for it in the claim's spec: a claim may have several shares of one device."""
        return f"{self.device}-{self.share_id}" if self.share_id else self.device


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """A claim with at least one device."""

    uid: str
    namespace: str
    name: str
    devices: tuple[PreparedDevice, ...]


class Checkpoint:
    """The prepared claims, kept in the file at ``path``. For one thread at a time.

    A file that is damaged, or of another version, is renamed and counts as lost: the specs tell again what is prepared.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._claims: dict[str, PreparedClaim] = {}
        self.read()

    def read(self) -> None:
        """Read the file again: another instance of the agent may have written it."""
        path = self._path
        try:
            self._claims = _read(path) if path.exists() else {}
        except (ValueError, KeyError, TypeError):
            aside = path.with_name(path.name + UNUSABLE)
            path.replace(aside)
            log.error("%s is no checkpoint of this agent. It was renamed to %s. The specs of the claims tell again "
                      "what is prepared.", path, aside.name)
            self._claims = {}

    def get(self, uid: str) -> PreparedClaim | None:
        """The claim with this uid."""
        return self._claims.get(uid)

    def claims(self) -> list[PreparedClaim]:
        """All prepared claims."""
        return list(self._claims.values())

    def put(self, claim: PreparedClaim) -> None:
        """Note a claim, also one that is noted already. Raises OSError."""
        self._write({**self._claims, claim.uid: claim})

    def drop(self, uid: str) -> None:
        """Forget a claim, if it is noted, also on a full disk.

        The file may keep the claim then. After a restart of the agent, the claim has its device until it is dropped
        again.
        """
        if uid in self._claims:
            left = {other: claim for other, claim in self._claims.items() if other != uid}
            try:
                self._write(left)
            except OSError as error:
                self._claims = left
                log.warning("%s still has the claim %s: %s", self._path, uid, error.strerror)

    def _write(self, claims: dict[str, PreparedClaim]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        document = {"version": VERSION, "claims": [_written(claim) for claim in claims.values()]}
        write_whole(self._path, json.dumps(document, indent=1) + "\n")
        self._claims = claims


def _written(claim: PreparedClaim) -> dict[str, t.Any]:
    """An agent from before devices were shared can read what has no share."""
    devices = [{name: value for name, value in asdict(device).items() if name != "consumed" or value}
               for device in claim.devices]
    return {**asdict(claim), "devices": devices}


def _read(path: Path) -> dict[str, PreparedClaim]:
    """Raises ValueError, KeyError or TypeError for what is no checkpoint of VERSION."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if document["version"] != VERSION:
        raise ValueError(document["version"])
    return {claim.uid: claim for claim in map(_claim, document["claims"])}


def _claim(raw: dict[str, t.Any]) -> PreparedClaim:
    devices = tuple(PreparedDevice(**device) for device in raw["devices"])
    return PreparedClaim(str(raw["uid"]), str(raw["namespace"]), str(raw["name"]), devices)
