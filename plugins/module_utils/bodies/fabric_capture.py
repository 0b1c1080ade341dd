# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the module ``fabric_capture``. A driver's collection can offer it under its own name."""

from __future__ import annotations

from .. import cluster_module, engine_module
from ..module_base import TaskContext
from ..reconcile.whatif import capture, capture_file
from ..reconcile.whatif.redaction import LEFT_OUT

SPEC = {
    "argument_spec": {**engine_module.CONFIG_OPTIONS, **cluster_module.CLUSTER_OPTIONS,
                      "path": {"type": "path", "required": True}},
    "supports_check_mode": True, **engine_module.CONFIG_RULES,
}


def work(task: TaskContext) -> dict[str, object]:
    """Read cluster and fabric. Outside check mode, write the file.

    Return the contents of the file in numbers. Raise BadConfig, BadCapture, ApiError or
    FabricError.
    """
    params = task.params
    found = capture.take(cluster_module.cluster(params), engine_module.config(task))
    if not task.check_mode:
        capture_file.write(found, params["path"])
    return {"changed": True, "path": params["path"], "version": capture_file.VERSION, "taken": found.taken,
            "objects": {kind: len(objects) for kind, objects in found.objects.items()},
            "machines": len(found.fabric.machines), "problems": sorted(set(found.fabric.problems.values())),
            "arrivals": {"known": len(found.past.came), "with_lifetime": sum(bool(c.lifetime) for c in found.past.came),
                         "served": sum(found.past.served.values()), "notes": list(found.past.notes)},
            "left_out": list(LEFT_OUT)}


def main() -> None:
    """Run the module."""
    engine_module.main(SPEC, work)
