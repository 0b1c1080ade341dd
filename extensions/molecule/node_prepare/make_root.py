# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a host's root folder: the files given as JSON on standard input, and stand-ins for the host's commands.

make_root.py ROOT
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

FOLDERS = ("etc/modprobe.d", "etc/systemd/system")


def main(root: Path) -> None:
    """Begin anew below ``root``."""
    shutil.rmtree(root, ignore_errors=True)
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    for name, text in json.load(sys.stdin).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
    shutil.copytree(Path(__file__).parent / "stand_ins", root / "bin")
    for stand_in in (root / "bin").iterdir():
        stand_in.chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
