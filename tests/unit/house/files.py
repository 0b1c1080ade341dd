# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The project's own files, as the house tests read them."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if (path / "tasks").is_dir())
SKIPPED = {"__pycache__", "output", "dist", "node_modules"}


def files(*suffixes: str) -> list[Path]:
    """Every file with one of the suffixes, relative to the checkout, without what tools write and hidden folders."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
        found += [(Path(folder) / name).relative_to(ROOT) for name in names if name.endswith(suffixes)]
    return sorted(found)


def python_files() -> list[Path]:
    """Every Python file, but for those that `make protos` generated."""
    return [path for path in files(".py") if not path.name.endswith("_pb2.py")]


def text(path: Path) -> str:
    """Content of a file named relative to the checkout."""
    return (ROOT / path).read_text(encoding="utf-8")
