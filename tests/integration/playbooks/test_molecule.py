# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Molecule finds what it looks for: a run that passes says nothing of critical failures or warnings before it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from ansible_collections.composable.infra.tests.e2e.support.played import environment
from ansible_collections.composable.infra.tests.unit.house.files import ROOT


def test_scenarios_that_pass_frighten_nobody(tmp_path: Path) -> None:
    """`default` is the one whose absence molecule calls critical; any other one asks for it."""
    variables = environment(tmp_path, NO_COLOR="1", HOME=str(tmp_path))
    done = subprocess.run([sys.executable, "-m", "molecule", "syntax", "-s", "default", "-s", "node_prepare"], cwd=ROOT,
                          env=variables, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert re.findall(r"^(default|node_prepare) +: .*\bsuccessful=1\b", said, re.M) == ["default", "node_prepare"]
    assert re.findall(r".*(?:CRITICAL|ERROR|WARNING).*", said) == []
