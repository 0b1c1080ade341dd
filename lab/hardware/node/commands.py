# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the stand-ins of a node's commands to its usr/bin, as programs that run with this
Python."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

_PACKAGE = __package__ or ""
COMMANDS = ("nvidia-smi", "modprobe", "cxl")
_SCRIPT = """#!{python} -IS
# A stand-in: it plays {name} on the nodes of the lab.
import sys

sys.path.insert(0, {root!r})
from {package}.{module} import main

sys.exit(main(sys.argv[1:]))
"""


def write_commands(folder: Path) -> None:
    """Write one script for each command. The nodes get copies."""
    folder.mkdir(parents=True, exist_ok=True)
    # The folder of ansible_collections.
    root = str(Path(__file__).absolute().parents[6])
    for name in COMMANDS:
        text = _SCRIPT.format(python=sys.executable, name=name, root=root, package=_PACKAGE,
                              module=name.replace("-", "_"))
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)


def give_commands(node: Path, folder: Path) -> None:
    """Copy the commands in `folder` to a node, because some programs see only the node's own
    folder."""
    own = node / "usr" / "bin"
    own.mkdir(parents=True, exist_ok=True)
    for name in COMMANDS:
        (own / name).unlink(missing_ok=True)
        shutil.copy(folder / name, own / name)
