# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the module ``fabric_plan``. A driver's collection can offer it under its own name."""

from __future__ import annotations

import typing as t
from contextlib import closing

from .. import fabric_module, module_base
from ..fabric.desired import layout_result
from ..fabric.errors import BadConfiguration

SPEC: dict[str, t.Any] = {
    "argument_spec": {
        **fabric_module.FABRIC_OPTIONS,
        "layout": {"type": "dict", "required": True},
        "kinds": {"type": "dict", "default": {}},
        "unlisted": {"type": "str", "choices": ["keep", "empty"], "default": "keep"},
        "state": {"type": "str", "choices": ["applied", "planned"], "default": "applied"},
        "attach_seconds": {"type": "float", "default": 10.0},
        "detach_seconds": {"type": "float", "default": 10.0},
    },
    "supports_check_mode": True,
}


def work(task: module_base.TaskContext) -> dict[str, t.Any]:
    """Plan a layout. With ``state`` ``applied`` and outside check mode, carry it out."""
    params = task.params
    for name in ("attach_seconds", "detach_seconds"):
        if not 0 <= params[name] < float("inf"):
            raise BadConfiguration(name, params[name], "it must be a number of seconds from 0 on")
    with closing(fabric_module.fabric(params)) as fabric:
        found = layout_result.survey(fabric, params["layout"], params["kinds"], params["unlisted"] == "empty")
        result = found.result(params["attach_seconds"], params["detach_seconds"])
        result["changed"] = bool(found.plan.steps) and params["state"] == "applied"
        if found.shortages:
            return result | {"changed": False, "failed": True, "msg": "; ".join(found.shortages), "error": "Refused"}
        if task.check_mode or not result["changed"]:
            return result
        return result | layout_result.carry_out(fabric, found.plan, params["attach_timeout"], task.say)


def main() -> None:
    """Run the module."""
    module_base.main(SPEC, work)
