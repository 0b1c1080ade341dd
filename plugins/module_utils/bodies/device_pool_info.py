# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the module ``device_pool_info``. A driver's collection can offer it by its own name."""

from __future__ import annotations

from .. import cluster_module, engine_module
from ..module_base import TaskContext
from ..reconcile.oneshot import pools

SPEC = engine_module.spec(pools={"type": "list", "elements": "str", "default": []})


def work(task: TaskContext) -> dict[str, object]:
    """Read the pools and write nothing.

    Return ``pools``. Raise BadConfig for a name that is no pool, NotReady, ApiError or FabricError.
    """
    params = task.params
    run = pools.PoolRun(cluster_module.cluster(params), engine_module.config(task), params["ready_timeout"])
    return {"pools": run.look(params["pools"]).as_result()["pools"]}


def main() -> None:
    """Run the module."""
    engine_module.main(SPEC, work)
