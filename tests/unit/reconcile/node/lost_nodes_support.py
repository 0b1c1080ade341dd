# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_lost_nodes.py` and others share."""

from __future__ import annotations

import time

from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey, NodeRecordsKey
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench


def reconcile(bench: Bench, rounds: int = 4) -> None:
    for _unused in range(rounds):
        bench.look()
        bench.reconcile(NodeKey("node-0"))
        bench.reconcile(NodeRecordsKey("node-0"))
        bench.idle()


def gone(bench: Bench, seconds: float) -> None:
    """The Node object is gone for so long."""
    bench.drop(objects.node())
    bench.state.absent_nodes.note("node-0", time.time() - seconds)
