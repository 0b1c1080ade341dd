# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the module ``fabric_info``. A driver's collection can offer it under its own name."""

from __future__ import annotations

import typing as t
from contextlib import closing

from .. import fabric_module, module_base
from ..fabric.desired import listing
from ..query import search

STATES = ["free", "attaching", "attached", "detaching", "unavailable"]
HEALTHS = ["OK", "Warning", "Critical", "Unknown"]
FILTERS: dict[str, t.Any] = {
    "machine": {"type": "list", "elements": "str"},
    "fabric": {"type": "list", "elements": "int"},
    "model": {"type": "list", "elements": "str"},
    "kind": {"type": "list", "elements": "str"},
    "state": {"type": "list", "elements": "str", "choices": STATES},
    "health": {"type": "list", "elements": "str", "choices": HEALTHS},
}
SPEC: dict[str, t.Any] = {
    "argument_spec": {
        **fabric_module.FABRIC_OPTIONS,
        "gather": {"type": "list", "elements": "str", "choices": list(listing.PARTS), "default": ["machines", "free"]},
        "machine": {"type": "str"},
        "models": {"type": "list", "elements": "str", "default": []},
        "filters": {"type": "dict", "options": FILTERS},
        "query": {"type": "str"},
    },
    "supports_check_mode": True,
}


def work(task: module_base.TaskContext) -> dict[str, t.Any]:
    """Read the requested parts and return them, or the result of ``query`` on them."""
    params = task.params
    filters = {name: frozenset(values) for name, values in (params["filters"] or {}).items() if values}
    question = listing.Question(frozenset(params["gather"]), tuple(params["models"]), params["machine"], filters)
    with closing(fabric_module.fabric(params)) as fabric:
        answer = listing.ask(fabric, question)
    if params["query"]:
        return {"result": search(answer, params["query"]), "problems": answer["problems"]}
    return answer


def main() -> None:
    """Run the module."""
    module_base.main(SPEC, work)
