# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collections with a driver of their own pass their own tests, which are the conformance checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from ansible_collections.composable.infra.tests.conformance.managers import EVERY_PROFILE
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

# The example, and each driver that could be a collection of its own.
FOLDERS = ("drivers", "examples")
COLLECTIONS = sorted(path.parent for folder in FOLDERS for path in ROOT.glob(f"{folder}/*/*/galaxy.yml"))
# They take as long as most of the other checks together, so they are left to make conformance-all. The example stays.
SLOW = ("composable.cfm", "composable.liqid")


def named(collection: Path) -> ParameterSet:
    """A case for a collection."""
    name = f"{collection.parent.name}.{collection.name}"
    return pytest.param(collection, id=name, marks=[pytest.mark.slow] if name in SLOW else [])


@pytest.mark.parametrize("collection", [named(path) for path in COLLECTIONS])
def test_a_collection_with_a_driver_passes_its_tests(collection: Path, tmp_path: Path) -> None:
    place = tmp_path / "ansible_collections" / collection.parent.name / collection.name
    place.parent.mkdir(parents=True)
    place.symlink_to(collection)
    # The quick part is every check with lost replies, which is what a driver most likely gets wrong.
    chosen = [] if EVERY_PROFILE else ["-k", "not restart and not lost-request and not none"]
    command = [sys.executable, "-m", "pytest", "-q", str(place / "tests"), *chosen]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(tmp_path)}, cwd=tmp_path, check=False,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout
