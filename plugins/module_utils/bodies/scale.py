# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the module ``scale``. A driver's collection can offer it under its own name."""

from __future__ import annotations

from .. import cluster_module, engine_module
from ..module_base import TaskContext
from ..reconcile.oneshot import run as session

SPEC = engine_module.spec(timeout={"type": "float", "default": 600.0})


def work(task: TaskContext) -> dict[str, object]:
    """Plan in check mode. Otherwise, serve waiting claims until nothing more can be served.

    Return ``changed``, ``actions``, ``verdicts``, ``settled``, ``led_by``, ``summary`` and
    ``diff``, and outside check mode ``history``. Raise BadConfig, NotReady, ApiError or
    FabricError.
    """
    config = engine_module.config(task)
    run = session.Run(cluster_module.cluster(task.params), config, task.params["ready_timeout"])
    outcome = run.plan() if task.check_mode else run.carry_out(task.params["timeout"])
    return outcome.as_result()


def main() -> None:
    """Run the module."""
    engine_module.main(SPEC, work)
