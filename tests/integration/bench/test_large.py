# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bench of large clusters measures an engine that is ready, here with few nodes."""

from __future__ import annotations

from ansible_collections.composable.infra.tests.bench.large import curves

NODES = 30


def test_an_engine_reads_plans_and_handles_events() -> None:
    (row,) = curves.run([NODES])
    assert (row["nodes"], row["devices"]) == (NODES, NODES * 8)
    assert row["keys"] >= NODES, "each node is planned"
    assert row["plan_burst_seconds"] > 0
    assert len(row["events_ms"]) == 6
    assert row["worked_mib"] >= row["empty_mib"]
