# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file of JSON lines that survives ``kill -9``.

Each record is one write, and nothing is rewritten at run time.
"""

from __future__ import annotations

import json
import os
import typing as t
from collections.abc import Iterable, Iterator
from pathlib import Path


class Journal:
    """Records in order. For a reader, later records replace earlier ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: t.BinaryIO | None = None

    def read(self) -> Iterator[dict[str, t.Any]]:
        """Yield all complete records. The last line may be incomplete."""
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record

    def write(self, record: dict[str, t.Any]) -> None:
        """Append one record. The kernel has it when this returns."""
        if self._file is None:
            self._file = self._path.open("ab", buffering=0)
        self._file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")

    def replace(self, records: Iterable[dict[str, t.Any]]) -> None:
        """Start again with ``records``, at once or not at all."""
        self.close()
        fresh = self._path.with_suffix(".new")
        fresh.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        os.replace(fresh, self._path)

    def close(self) -> None:
        """Close the file. A later write opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None
