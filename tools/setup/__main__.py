# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one entry of set-up: `python -m tools.setup` makes or confirms the checkout's virtual environment.

The Python that runs it becomes the environment's; `find_python.sh` finds one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import collections, environment, launchers, stand_ins
from .machine import Missing, go_trouble, java_trouble

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Check the machine, then build or confirm the environment. Exit status 1 with one sentence if it cannot."""
    options = arguments()
    try:
        if options.need_java:
            demand(java_trouble())
        return prepare()
    except Missing as missing:
        print(f"set-up: {missing}", file=sys.stderr)
        return 1


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="tools.setup", description="Make or confirm .venv of this checkout.")
    parser.add_argument("--need-java", action="store_true", help="fail when ansible-rulebook could not start")
    return parser.parse_args()


def demand(trouble: str | None) -> None:
    """Raise Missing with the trouble, if there is one."""
    if trouble:
        raise Missing(trouble)


def prepare() -> int:
    """Build the environment where it is absent, broken or out of date."""
    with environment.locked(ROOT):
        if not environment.current(ROOT):
            report_machine()
            environment.build(ROOT, sys.executable)
        launchers.write(ROOT)
        collections.provide(ROOT)
        stand_ins.provide(ROOT)
    return 0


def report_machine() -> None:
    """Tell once what this machine lacks that not every command needs."""
    for trouble in (java_trouble(), go_trouble()):
        if trouble:
            print(f"set-up: note: {trouble}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
