# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel parameters in a host's boot loader, and a record of the added parameters.

The record makes it possible to remove exactly the added parameters. Standard library only, Python
3.8, because the file runs on hosts. ``text`` is the boot loader's form of the parameters: a file
for grub, a line of arguments for grubby.
"""

from __future__ import annotations

import json
import re
import typing as t
from collections.abc import Callable, Sequence
from pathlib import Path

from . import parameters

_ARGUMENTS = re.compile('^args="(.*)"$', re.MULTILINE)


class Unreadable(Exception):
    """The parameters cannot be read or written. The message names the file or command."""


class Grub:
    """``/etc/default/grub``. A command of the distribution makes grub's configuration from it."""

    def __init__(self, path: Path, write: Callable[[Path, str], None]) -> None:
        self.where, self._path, self._write = str(path), path, write

    def read(self) -> str:
        """Return the text of the file."""
        try:
            return self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Unreadable(f"{self._path} cannot be read: {getattr(error, 'strerror', None) or error}") from None

    def merged(self, text: str, wanted: Sequence[str]) -> dict[str, t.Any]:
        """Return ``text`` with the wanted parameters, ``added`` and ``kept``."""
        return parameters.merge_grub(text, wanted)

    def without(self, text: str, added: Sequence[str]) -> str:
        """Return the text without the added parameters."""
        return parameters.unmerge_grub(text, added)

    def write(self, before: str, after: str) -> None:
        """Write the file."""
        self._write(self._path, after)


class Grubby:
    """The boot entries of all kernels, by ``grubby``. Changes take effect at the next boot.

    ``run`` runs a command and returns its exit status, output and errors.
    """

    where = "grubby"

    def __init__(self, run: Callable[[Sequence[str]], tuple[int, str, str]]) -> None:
        self._run = run

    def read(self) -> str:
        """Return the arguments of the default kernel."""
        found = _ARGUMENTS.search(self._must("--info=DEFAULT"))
        return found.group(1) if found else ""

    def merged(self, text: str, wanted: Sequence[str]) -> dict[str, t.Any]:
        """Return ``text`` with the wanted parameters, ``added`` and ``kept``."""
        done = parameters.merge(text, wanted)
        return {"text": done["line"], "added": done["added"], "kept": done["kept"]}

    def without(self, text: str, added: Sequence[str]) -> str:
        """Return the text without the added parameters."""
        return parameters.unmerge(text, added)

    def write(self, before: str, after: str) -> None:
        """Call grubby with the arguments to remove and to add."""
        old, new = before.split(), after.split()
        self._must("--update-kernel=ALL", "--remove-args=" + " ".join(word for word in old if word not in new),
                   "--args=" + " ".join(word for word in new if word not in old))

    def _must(self, *arguments: str) -> str:
        code, out, err = self._run(["grubby", *arguments])
        if code != 0:
            raise Unreadable(f"grubby {arguments[0]} fails: {(err or out).strip() or f'exit status {code}'}")
        return out


class Record:
    """The record of added parameters, as JSON."""

    def __init__(self, path: Path, write: Callable[[Path, str], None]) -> None:
        self.path, self._write = path, write

    def read(self) -> list[str]:
        """Return all added parameters, or an empty list without a record."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise Unreadable(f"{self.path} cannot be read: {error}") from None
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise Unreadable(f"{self.path} is not a list of kernel parameters. Correct or remove it")
        return found

    def add(self, added: Sequence[str]) -> None:
        """Add parameters to the record."""
        found = self.read()
        new = [*found, *(one for one in added if one not in found)]
        self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._write(self.path, json.dumps(new, indent=4) + "\n")
