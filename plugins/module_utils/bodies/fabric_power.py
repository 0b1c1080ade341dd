# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the module ``fabric_power``. A driver's collection can offer it under its own name."""

from __future__ import annotations

import typing as t
from contextlib import closing

from .. import fabric_module, module_base
from ..fabric.desired import power

SPEC: dict[str, t.Any] = {
    "argument_spec": {
        **fabric_module.FABRIC_OPTIONS,
        "machine": {"type": "str", "required": True},
        "state": {"type": "str", "choices": list(power.STATES), "required": True},
        "force": {"type": "bool", "default": False},
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "float", "default": 300.0},
    },
    "supports_check_mode": True,
}


def work(task: module_base.TaskContext) -> dict[str, t.Any]:
    """Change the power state of a machine.

    Return ``power_state``, ``resets`` and the other documented keys. Raise FabricError.
    """
    params = task.params
    with closing(fabric_module.fabric(params)) as fabric:
        manager = power.manager_of(fabric, params["manager"])
        found = power.plan(fabric, manager, params["machine"], params["state"], params["force"])
        if task.check_mode or not found.steps:
            return power.as_result(found)
        return power.as_result(found, power.carry_out(manager, found, params["wait_timeout"], params["wait"]))


def main() -> None:
    """Run the module."""
    module_base.main(SPEC, work)
