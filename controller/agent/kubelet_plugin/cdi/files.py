# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write files as a whole or not at all, even if the writer is killed."""

from __future__ import annotations

import os
from pathlib import Path

# No reader takes a file with this suffix for the file itself.
UNFINISHED = ".new"


def write_whole(path: Path, text: str) -> None:
    """Write a file and wait until it is on the disk. One writer for each path. Raises OSError."""
    fresh = path.with_name(path.name + UNFINISHED)
    with open(fresh, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
