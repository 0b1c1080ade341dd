# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make `ansible_collections.composable.infra` importable from `.venv` and give its programs short
names.

A collection is imported by its place in a folder tree, and a checkout is not in one. So a link in
`.venv` puts it there, and a path file adds the tree to Python and Ansible.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from .environment import python_of

PROGRAMS = ("lab", "emulator", "controller")
PACKAGE = "ansible_collections.composable.infra"
SCRIPT = """#!/bin/sh
exec {python} -m {package}.{program} "$@"
"""


def write(root: Path) -> None:
    """Write link, path file and programs if they are absent or differ."""
    link(tree(root) / PACKAGE.replace(".", "/"), root)
    for site in sorted((root / ".venv" / "lib").glob("python3*/site-packages")):
        put(site / "composable_infra.pth", f"{tree(root)}\n")
    for program in PROGRAMS:
        text = SCRIPT.format(python=shlex.quote(str(python_of(root))), package=PACKAGE, program=program)
        put(root / ".venv" / "bin" / program, text, mode=0o755)


def tree(root: Path) -> Path:
    """Return the folder of `ansible_collections`."""
    return root / ".venv" / "collections"


def link(path: Path, target: Path) -> None:
    """Make `path` a link to `target`. Replace a link to another target."""
    if path.is_symlink() and os.readlink(path) == str(target):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target, target_is_directory=True)


def put(path: Path, text: str, mode: int = 0o644) -> None:
    """Write the file unless it has this text."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
