# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_controller.py` and others share."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricSnapshot, Machine
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import SLICES
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench


def snapshot(free: dict[tuple[str, int], int], fabrics: t.Iterable[int] = (1,), taken: float | None = None
             ) -> FabricSnapshot:
    """What the manager shows: a machine on each fabric."""
    machines = {f"machine-{i}": Machine(f"machine-{i}", f"node-{i}", f) for i, f in enumerate(fabrics)}
    return FabricSnapshot(machines, free, time.time() if taken is None else taken)


def written(bench: Bench) -> list[list[str]]:
    """Device names of all pools' slices at the API server."""
    return [[d["name"] for d in s["spec"]["devices"]] for s in bench.api.of(SLICES) if "nodeName" not in s["spec"]]
