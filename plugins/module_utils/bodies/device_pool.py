# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the module ``device_pool``. A driver's collection can offer it under its own name."""

from __future__ import annotations

from .. import cluster_module, engine_module
from ..module_base import TaskContext
from ..reconcile.oneshot import pools

SPEC = engine_module.spec(
    state={"type": "str", "choices": ["published", "withdrawn"], "required": True},
    pools={"type": "list", "elements": "str", "default": []},
)


def work(task: TaskContext) -> dict[str, object]:
    """Publish or withdraw the pools, by ``state``.

    Return ``changed``, ``pools``, ``led_by`` and ``diff``. Raise BadConfig, NotReady, ApiError or
    FabricError.
    """
    params = task.params
    run = pools.PoolRun(cluster_module.cluster(params), engine_module.config(task), params["ready_timeout"])
    make = run.published if params["state"] == "published" else run.withdrawn
    return make(params["pools"], task.check_mode).as_result()


def main() -> None:
    """Run the module."""
    engine_module.main(SPEC, work)
