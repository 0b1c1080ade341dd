# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node is ready when it says so, and not otherwise."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import nodes


@pytest.mark.parametrize(("status", "wanted"), [
    ({"conditions": [{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": "True"}]}, True),
    ({"conditions": [{"type": "Ready", "status": "False"}]}, False),
    ({"conditions": [{"type": "Ready", "status": "Unknown"}, {"type": "DiskPressure", "status": "True"}]}, False),
    ({"conditions": [{}]}, False), ({"conditions": None}, False), ({}, False), (None, False)])
def test_ready(status: dict[str, t.Any] | None, wanted: bool) -> None:
    assert nodes.ready({"metadata": {"name": "n"}, "status": status}) is wanted
    assert not nodes.ready({})
