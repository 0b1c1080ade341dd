# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of one emulator. A client that knows the folder finds the emulator."""

from __future__ import annotations

import fcntl
import json
import os
import typing as t
from dataclasses import dataclass
from pathlib import Path

from .pool.fabric_spec import FabricSpec
from .pool.fields import SpecError

_ENDPOINT: t.Final = {False: "endpoint", True: "plain_endpoint"}


class Taken(OSError):
    """Another emulator has the folder."""


class OtherFabric(OSError):
    """The emulator that runs in the folder has another fabric."""


@dataclass(frozen=True, slots=True)
class StateDir:
    """The folder of an emulator.

    It has ``endpoint`` and ``plain_endpoint`` (URLs), ``ca.pem`` (for clients), ``authority.pem``
    (the current authority), ``credentials.json`` (0600), ``pid``, ``fabric.json`` and journals.
    """

    path: Path

    def prepare(self) -> None:
        """Make the folder, for its owner only."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def file(self, name: str) -> Path:
        """Return a file in the folder."""
        return self.path / name

    def endpoint(self, *, plain: bool = False) -> str | None:
        """Return the URL of the emulator that runs here, or ran last.

        ``plain``: of its http listener.
        """
        return self._text(_ENDPOINT[plain])

    def port(self, *, plain: bool = False) -> int:
        """Return the port of the last run, which the next run uses again. 0 if there was none."""
        endpoint = self.endpoint(plain=plain)
        return int(endpoint.rpartition(":")[2]) if endpoint else 0

    def trust(self) -> str:
        """Return the PEM file of the current authority, even if clients have another one."""
        authority = self.file("authority.pem")
        return str(authority if authority.exists() else self.file("ca.pem"))

    def credentials(self) -> dict[str, str]:
        """Return the values that a client needs to log in."""
        return t.cast(dict[str, str], json.loads(self.file("credentials.json").read_text(encoding="utf-8")))

    def keep_fabric(self, document: t.Any) -> None:
        """Keep the document, so that a restart needs none."""
        self.file("fabric.json").write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")

    def keeps(self, document: t.Any) -> bool:
        """Return whether ``document`` is the kept document. Raises OSError if none is kept."""
        kept = json.loads(self.file("fabric.json").read_text(encoding="utf-8"))
        return bool(kept == json.loads(json.dumps(document)))

    def fabric(self) -> FabricSpec:
        """Return the kept document. Raises SpecError."""
        if not self.file("fabric.json").exists():
            raise SpecError("--fabric", f"it is required, because {self.path} holds no fabric of an earlier run")
        return FabricSpec.load(self.file("fabric.json"))

    def announce(self, url: str, *, plain: bool = False) -> None:
        """Write the URL of the emulator."""
        self.file(_ENDPOINT[plain]).write_text(f"{url}\n", encoding="utf-8")

    def hold(self) -> t.TextIO:
        """Take the folder for this process until the file is closed.

        Raises Taken if another process has it.

        The lock on ``pid`` is the kernel's. It ends with the process, however that ends.
        """
        file = self.file("pid").open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise Taken(f"an emulator already runs in {self.path} as process {self._text('pid')}") from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        return file

    def pid(self) -> int | None:
        """Return the process id of the emulator that runs here, None if none runs."""
        if not self.file("pid").exists():
            return None
        with self.file("pid").open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read())
        return None

    def _text(self, name: str) -> str | None:
        try:
            return self.file(name).read_text(encoding="utf-8").strip() or None
        except FileNotFoundError:
            return None
