# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make demo`` as a user starts it, and what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

from ansible_collections.composable.infra.lab.autoscaling.processes import VARIABLE

PACKAGE = "ansible_collections.composable.infra"
LIMIT = 600.0


def played(mode: str, folder: Path, *, drawn: bool = True) -> str:
    """What a run of this mode prints; it must end well, and draw its picture if it draws one."""
    picture = folder / "demo.svg"
    command = [sys.executable, "-m", f"{PACKAGE}.lab.demo", "--mode", mode, "--svg", str(picture)]
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    assert picture.exists() is drawn
    assert not drawn or "<svg" in picture.read_text(encoding="utf-8")
    return done.stdout


def moments(printed: str, *texts: str) -> list[int]:
    """Where each text is first printed."""
    assert [text for text in texts if text not in printed] == [], printed
    return [printed.index(text) for text in texts]


def rows(printed: str) -> dict[str, dict[str, str]]:
    """The table at the end: by claim, what stands in each row, by the row's words."""
    lines = printed[printed.index("  seconds  "):].splitlines()
    table = [re.split(r" {2,}", line[2:].strip()) for line in
             takewhile(lambda line: not line.startswith("Seconds since"), lines)]
    _head, *names = table[0]
    return {name: {row[0]: row[1 + place] for row in table} for place, name in enumerate(names)}
