# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab runs the controllers with the environment of the role's Deployment."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.composable.infra.lab.demo.deployed import AS_DEPLOYED

TEMPLATE = Path(__file__).parents[3] / "roles/controllers/templates/deployment.yaml.j2"


def test_the_lab_runs_the_controllers_as_the_role_deploys_them() -> None:
    found = dict(re.findall(r'- name: (\w+)[^\n]*\n\s+value: "([^"]*)"', TEMPLATE.read_text(encoding="utf-8")))
    assert AS_DEPLOYED.items() <= found.items()
