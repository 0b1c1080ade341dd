# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example of a driver from another collection passes its own tests, which are the conformance checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ansible_collections.composable.infra.tests.conformance.managers import EVERY_PROFILE
from ansible_collections.composable.infra.tests.unit.house.files import ROOT


def test_the_example_passes_its_tests(tmp_path: Path) -> None:
    place = tmp_path / "ansible_collections" / "acme" / "toy"
    place.parent.mkdir(parents=True)
    place.symlink_to(ROOT / "examples" / "acme" / "toy")
    chosen = [] if EVERY_PROFILE else ["-k", "not restart and not lost-request"]
    command = [sys.executable, "-m", "pytest", "-q", str(place / "tests"), *chosen]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(tmp_path)}, cwd=tmp_path, check=False,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout
