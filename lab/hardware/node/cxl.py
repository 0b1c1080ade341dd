# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for `cxl` on a simulated node: take CXL memory offline, unless a process has it open,
and back.

NODE_ROOT is the node's folder. The output is like that of cxl-cli 78.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.composable.infra.lab.hardware.node.records import CXL_DRIVER, Records

_VERBS = {"disable-memdev": True, "enable-memdev": False}


def main(arguments: Sequence[str]) -> int:
    """Run one command line and return the exit code."""
    if len(arguments) != 2 or arguments[0] not in _VERBS:
        print("usage: cxl disable-memdev|enable-memdev <mem>", file=sys.stderr)
        return 129
    records, (verb, name) = Records(Path(os.environ["NODE_ROOT"])), arguments
    with records.lock():
        device = next((d for d in records.devices()
                       if d.driver == CXL_DRIVER and d.file.rpartition("/")[2] == name), None)
        if device is None:
            print(f"cxl memdev: cmd_{verb.replace('-', '_')}: no device {name}", file=sys.stderr)
            return 1
        if _VERBS[verb] and records.is_open(device):
            print(f"cxl memdev: action_disable: {name} is part of an active region: Device or resource busy",
                  file=sys.stderr)
            return 1
        records.save(device.but(draining=_VERBS[verb]))
    print(f"cxl memdev: cmd_{verb.replace('-', '_')}: {verb.partition('-')[0]}d 1 mem", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
