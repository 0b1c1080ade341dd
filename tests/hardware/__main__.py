# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only a node with an NVIDIA GPU shows: `make hardware`.

One sentence where there is no GPU, and the end is a success. Where there is one that cannot be tested, it is a failure.
Else the tests run. The end says for each line of docs/contributors/simulation.md that hardware can settle, whether it
is settled.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.hardware.node import ROOT, no_gpu, unusable
from ansible_collections.composable.infra.tests.hardware.settled import Results, lines

HERE = Path(__file__).resolve().parent
# Tests that take the GPU away come last.
FILES = ("test_reads.py", "test_use.py", "test_bus.py")
NOT_POSSIBLE = 2


def main(arguments: Sequence[str], root: Path = ROOT, user: int | None = None) -> int:
    """Return the exit status. `arguments`: for pytest. `root`: where the node's /sys and /proc are."""
    missing, status = no_gpu(root), 0
    if not missing:
        missing, status = unusable(root, os.geteuid() if user is None else user), NOT_POSSIBLE
    if missing:
        print(missing)
        return status
    results = Results()
    files = [str(HERE / name) for name in FILES]
    ended = pytest.main(["--quiet", *arguments, *files], plugins=[results])
    print("\n".join(lines(results.of)))
    return int(ended)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
