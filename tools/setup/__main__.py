# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set up a checkout: `python -m tools.setup` makes or confirms its virtual environment.

The Python that runs this is used for the environment. `find_python.sh` finds one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import collections, environment, launchers, stand_ins
from .machine import Missing, go_trouble, java_trouble

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Check the machine, then build or confirm the environment. Return 1 after an error
    sentence."""
    options = arguments()
    try:
        if options.need_java:
            demand(java_trouble())
        return prepare()
    except Missing as missing:
        print(f"set-up: {missing}", file=sys.stderr)
        return 1


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="tools.setup", description="Make or confirm .venv of this checkout.")
    parser.add_argument("--need-java", action="store_true", help="fail if ansible-rulebook cannot start here")
    return parser.parse_args()


def demand(trouble: str | None) -> None:
    """Raise Missing with the problem, if there is one."""
    if trouble:
        raise Missing(trouble)


def prepare() -> int:
    """Build the environment if it is absent, broken or out of date."""
    with environment.locked(ROOT):
        if not environment.current(ROOT):
            report_machine()
            environment.build(ROOT, sys.executable)
        launchers.write(ROOT)
        collections.provide(ROOT)
        stand_ins.provide(ROOT)
    return 0


def report_machine() -> None:
    """Report programs that this machine lacks and that only some commands need."""
    for trouble in (java_trouble(), go_trouble()):
        if trouble:
            print(f"set-up: note: {trouble}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
