# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the module ``fabric_device``. A driver's collection can offer it under its own name."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from contextlib import closing

from .. import fabric_module, module_base
from ..fabric.desired.attachment import (
    AttachmentSpec,
    as_result,
)
from ..fabric.desired.attachment_plan import AttachmentPlan

ONE: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["attached", "detached"], "default": "attached"},
    "model": {"type": "str"},
    "count": {"type": "int"},
    "exact": {"type": "bool", "default": False},
    "kind": {"type": "str", "default": "gpu"},
    "device": {"type": "str"},
    "handle": {"type": "str"},
}
SPEC: dict[str, t.Any] = {
    "argument_spec": {
        **fabric_module.FABRIC_OPTIONS,
        "machine": {"type": "str"},
        **ONE,
        "attachments": {"type": "list", "elements": "dict",
                        "options": {"machine": {"type": "str", "required": True}, **ONE}},
        "wait": {"type": "bool", "default": True},
    },
    "required_one_of": [("machine", "attachments")],
    "mutually_exclusive": [("attachments", name) for name in ("machine", "model", "device", "handle")],
    "supports_check_mode": True,
}


def work(task: module_base.TaskContext) -> dict[str, t.Any]:
    """Attach and detach devices. Return the result of ``as_result``."""
    params = task.params
    bulk = params["attachments"] is not None
    specs = ([_spec(item, f"attachments[{number}].") for number, item in enumerate(params["attachments"])]
             if bulk else [_spec(params)])
    with closing(fabric_module.fabric(params)) as fabric:
        plan = AttachmentPlan(fabric, params["attach_timeout"], params["wait"], task.say)
        results = plan.foresee(specs) if task.check_mode else plan.apply(specs)
    result = as_result(results)
    if not bulk and params["model"]:
        result["count"] = results[0].after
    return result


def _spec(item: Mapping[str, t.Any], where: str = "") -> AttachmentSpec:
    return AttachmentSpec(machine=item["machine"], where=where, **{name: item[name] for name in ONE})


def main() -> None:
    """Run the module."""
    module_base.main(SPEC, work)
