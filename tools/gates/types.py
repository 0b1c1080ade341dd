# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run mypy --strict over all Python, under the module names of the installed collection.

The files are checked through the link in `.venv/collections`. There the path gives the full module
name, so that relative and absolute imports mean the same module. Messages name the file in the
checkout.
"""

from __future__ import annotations

import subprocess
import sys

from .workspace import BIN, ROOT

PACKAGES = ("plugins", "extensions", "controller", "drivers", "emulator", "examples", "lab", "tools", "tests")
LINK = ".venv/collections/ansible_collections/composable/infra/"


def main() -> int:
    """Return the exit status of mypy."""
    folders = [LINK + name for name in PACKAGES if any((ROOT / name).rglob("*.py"))]
    done = subprocess.run([str(BIN / "python"), "-m", "mypy", *sys.argv[1:], *folders], cwd=ROOT, check=False,
                          capture_output=True, text=True)
    print((done.stdout + done.stderr).replace(LINK, ""), end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
