# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the collection's archive from the copy of the sources, so that nothing else can slip into it.

Links of its README files are as Galaxy needs them.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from ..published import copied
from .workspace import CACHE, ROOT, run, sources


def build(folder: Path) -> Path | None:
    """Build the archive into `folder`, alone there; None when ansible-galaxy failed (and said why)."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    status = run(["ansible-galaxy", "collection", "build", "--output-path", str(folder)],
                 cwd=copied(sources(), CACHE / "build"),
                 ANSIBLE_LOCAL_TEMP=str(CACHE / "ansible" / "tmp"))
    return None if status else next(folder.glob("*.tar.gz"))


def main() -> int:
    """Build into `dist/`."""
    return 0 if build(ROOT / "dist") else 1


if __name__ == "__main__":
    sys.exit(main())
