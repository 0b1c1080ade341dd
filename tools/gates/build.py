# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the collection's archive from the copy of the sources, so that nothing else slips into it.

Links of its README files are as Galaxy needs them. `make build` runs this with a plain Python,
before any set-up. So this module and those that it imports use the standard library only.
ansible-galaxy may belong to any environment.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..published import copied
from .workspace import BIN, CACHE, ROOT, run, sources

PROGRAM = "ansible-galaxy"
MISSING = f"build: {PROGRAM} is missing: install it with `pip install ansible-core`"


def build(folder: Path) -> Path | None:
    """Empty `folder` and build the archive there. Return its path, or None after a printed error."""
    program = galaxy()
    if program is None:
        print(MISSING, file=sys.stderr)
        return None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="build-") as work:
        # A program of the user's own packages needs the user's home folder.
        status = run([program, "collection", "build", "--output-path", str(folder)],
                     cwd=copied(sources(), Path(work) / "copy"), HOME=str(Path.home()),
                     ANSIBLE_LOCAL_TEMP=str(CACHE / "ansible" / "tmp"))
    return None if status else next(folder.glob("*.tar.gz"))


def galaxy() -> str | None:
    """Return the path of ansible-galaxy: of this Python's environment, of `.venv`, or on PATH."""
    folders = (str(BIN), str(ROOT / ".venv" / "bin"), os.environ.get("PATH", os.defpath))
    return shutil.which(PROGRAM, path=os.pathsep.join(folders))


def main(arguments: Sequence[str] | None = None) -> int:
    """Build into `dist/`, or into another folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="folder for the archive, which is emptied "
                                                                         "first")
    return 0 if build(parser.parse_args(arguments).into.absolute()) else 1


if __name__ == "__main__":
    sys.exit(main())
