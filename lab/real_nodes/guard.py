# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait for the end of a lab's real nodes and undo their changes to the machine, even if the lab was
killed.

The guard is a separate process that ends shortly after the lab. If it is killed too, the next
`lab up` or `lab down` does its work.
"""

from __future__ import annotations

import math
import signal
import sys
from pathlib import Path

from ansible_collections.composable.infra.lab.hardware.options import import_path
from ansible_collections.composable.infra.lab.processes import pids
from ansible_collections.composable.infra.lab.processes.supervisor import Command
from ansible_collections.composable.infra.lab.real_nodes.ledger import Ledger

NAME = "real-nodes-guard"


def command(state_dir: Path) -> Command:
    """Return the command of the guard of the lab in `state_dir`, which must be in the ledger."""
    arguments = (sys.executable, "-m", f"{__package__}.guard", str(state_dir))
    return Command(NAME, arguments, {"PYTHONPATH": import_path()}, outlives=True)


def main() -> None:
    """Guard the lab in the folder that the command line names."""
    # A stop of the lab stops its processes one by one. The guard ends by itself after the nodes.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ledger = Ledger()
    for pid, started in ledger.keepers(Path(sys.argv[1])):
        pids.wait_gone(pid, started, math.inf)
    ledger.sweep()


if __name__ == "__main__":
    main()
