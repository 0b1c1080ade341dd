# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entry point of the node simulator, which `Lab.attach_hardware` starts."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from ansible_collections.composable.infra.lab.hardware.options import HardwareOptions
from ansible_collections.composable.infra.lab.hardware.run import run_nodes


def log(line: str) -> None:
    """Write a line to the simulator's log."""
    print(time.strftime("%H:%M:%S"), line, flush=True)


def main() -> None:
    """Simulate the nodes of the options file that the command line names."""
    # No cleanup is needed, because all state is on disk.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    options = HardwareOptions.from_file(Path(sys.argv[1]))
    run_nodes(options, log)


if __name__ == "__main__":
    main()
