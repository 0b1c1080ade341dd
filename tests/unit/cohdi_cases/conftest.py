# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fixtures of the parts that the cases are shown on."""

from __future__ import annotations

from ansible_collections.composable.infra.tests.unit.fabric.drivers.fm.test_driver import (
    connected as fm,
)
from ansible_collections.composable.infra.tests.unit.fabric.http.test_auth import (
    connected as session,
)
from ansible_collections.composable.infra.tests.unit.node.test_release import (
    gpu_a,
    node,
    notes,
)
from ansible_collections.composable.infra.tests.unit.reconcile.conftest import bench, quick
from ansible_collections.composable.infra.tests.unit.reconcile.node.test_lost_nodes import (
    agent,
)

__all__ = ["agent", "bench", "fm", "gpu_a", "node", "notes", "quick", "session"]
