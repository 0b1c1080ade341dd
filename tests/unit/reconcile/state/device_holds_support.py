# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_device_holds.py` and others share."""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.device_holds import DeviceHolds
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench


def kept(bench: Bench, node: str = "node-0") -> dict[str, str]:
    """Claim names by ComposableResource, of holds that count after the uses were taken down."""
    bench.state.note_uses([node])
    return {r.name: r.held_for.removeprefix("uid-") for r in node_snapshot(bench.state, node).resources if r.hold_alive}


def visible(bench: Bench, *names: str) -> None:
    """Attached devices that the node shows in this order."""
    bench.put(objects.local_slice(*[f"GPU-{n}" for n in names]))
    bench.put(*(objects.resource(n, device=n, serial=f"GPU-{n}") for n in names))


def names(holds: DeviceHolds, claim: str) -> list[str]:
    """What is kept for a claim."""
    return [each.name for each in holds.kept_for(claim)]
