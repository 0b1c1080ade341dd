# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_role.py` and others share."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.composable.infra.tests.integration.awx.conftest import named
from ansible_collections.composable.infra.tests.integration.awx.stub import Awx

SURVEY = json.loads((Path(__file__).parent / "survey.schema.json").read_text(encoding="utf-8"))
# Jobs that log in to hosts whatever does the work on the nodes.
ON_HOSTS = {"Composable bootstrap", "Composable verify", "Composable uninstall"}
# Jobs that log in to the nodes where node_operations is ssh.
ON_NODES = {"Composable attach", "Composable scale pass", "Composable detach"}


def sources_before(awx: Awx) -> dict[str, set[str]]:
    """Names of the inventory sources that AWX updates before a job, by job template."""
    return {name: {source["name"] for source in awx.items["inventory_sources"].values()
                   if source["inventory"] == template["inventory"] and source["update_on_launch"]}
            for name, template in named(awx, "job_templates").items()}
