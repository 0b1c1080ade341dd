# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated node for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.unit.controller.agent.kubelet_plugin.plugin_node import PluginNode


@pytest.fixture
def node(tmp_path: Path) -> PluginNode:
    """A node with one GPU."""
    made = PluginNode(tmp_path)
    made.plug("a")
    return made
