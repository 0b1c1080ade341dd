# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the module ``fabric_defragment``. A driver's collection can offer it by its own name."""

from __future__ import annotations

from .. import cluster_module, engine_module
from ..module_base import TaskContext
from ..reconcile.whatif import capture
from ..reconcile.whatif.room.idle_release import Releases
from ..reconcile.whatif.room.question import room
from ..reconcile.whatif.room.room_requests import (
    BadRoomRequest,
    asked,
    check_id,
)

OPTIONS = {"claim": {"type": "str"}, "model": {"type": "str"}, "count": {"type": "int", "default": 1},
           "node_labels": {"type": "dict"}, "proposal": {"type": "str"}, "wait": {"type": "bool", "default": True},
           "wait_timeout": {"type": "float", "default": 300.0}}
SPEC = {
    "argument_spec": {**engine_module.CONFIG_OPTIONS, **cluster_module.CLUSTER_OPTIONS, **OPTIONS},
    "supports_check_mode": True,
    "mutually_exclusive": [*engine_module.CONFIG_RULES["mutually_exclusive"], ("claim", "model"),
                           ("claim", "node_labels")],
    "required_one_of": [*engine_module.CONFIG_RULES["required_one_of"], ("claim", "model")],
}


def work(task: TaskContext) -> dict[str, object]:
    """Make a proposal. Outside check mode, carry out the named proposal.

    Return ``changed``, ``proposal``, ``says`` and ``diff``. Raise BadRoomRequest without a proposal to
    carry out, BadConfig, ApiError or FabricError.
    """
    params, client, config = task.params, cluster_module.cluster(task.params), engine_module.config(task)
    if not (task.check_mode or params["proposal"]):
        raise BadRoomRequest("proposal", params["proposal"], "run in check mode to see the proposal, then set its id")
    found = room(capture.take(client, config), asked(params))
    result = {"changed": bool(found.moves), "proposal": found.as_data(), "says": found.sentence,
              "diff": found.difference()}
    if task.check_mode:
        return result
    check_id(found, params["proposal"])
    releases = Releases(client, config.settings)
    releases.release(found)
    if params["wait"]:
        releases.wait(found, params["wait_timeout"])
    return result | {"changed": releases.changed}


def main() -> None:
    """Run the module."""
    engine_module.main(SPEC, work)
