# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run `ansible-test integration` on `tests/integration/targets`, on this machine and without containers.

`CORE=2.16` runs the ansible-test of that ansible-core, instead of the one of `.venv`. Arguments go to ansible-test, for
example the name of a target.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from ..published import copied
from . import other_core
from .sanity import cache_home
from .workspace import BIN, ROOT, run, sources

HOME = cache_home() / "composable-infra" / "ansible-core-targets"
REQUIREMENTS = ROOT / "tests" / "integration" / "requirements.txt"


def main() -> int:
    """Return the exit status of ansible-test."""
    core = os.environ.get("CORE", "")
    try:
        programs = other_core.programs(HOME, core, packages=packages()) if core else BIN
    except other_core.NoSuchCore as error:
        sys.stderr.write(f"targets: {error}\n")
        return 1
    # ansible-test writes below the collection. In the common copy another gate would remove that.
    with tempfile.TemporaryDirectory(prefix="targets-") as work:
        return run([str(programs / "ansible-test"), "integration", "--local", "--color", "no",
                    "--python", other_core.python_version(programs), *sys.argv[1:]],
                   cwd=copied(sources(), Path(work)),
                   PATH=f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}")


def packages() -> list[str]:
    """Return the packages that the targets need."""
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


if __name__ == "__main__":
    sys.exit(main())
