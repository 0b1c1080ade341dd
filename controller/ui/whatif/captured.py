# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the process's state of cluster and fabric as a capture for the child process, from memory
without requests.

A store keeps less of a bound pod than a capture does, so only the module supports changes that move
pods.
"""

from __future__ import annotations

import json
import sys
import time
import typing as t
from functools import partial

from ansible_collections.composable.infra.controller.ui.whatif.bounded import WhatIf
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_agents import AGENT
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.capture import Capture
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.capture_file import as_document
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.redaction import keepers

NOT_SEEN: t.Final = "There is nothing to replay: this process has not read the fabric yet. Ask the process that leads."


PROGRAM: t.Final = (sys.executable, "-m", "ansible_collections.composable.infra.controller.ui.whatif.program")


def what_if_of(state: ClusterState, config: EngineConfig) -> WhatIf:
    """Return the questions about the state of an engine."""
    return WhatIf(partial(write_captured, state, config), PROGRAM)


def write_captured(state: ClusterState, config: EngineConfig, question: Json, file: t.IO[str]) -> str:
    """Write a line with question and fabric, then a line for each object, to save memory.

    Return a sentence if there is nothing to write, else an empty text.
    """
    if state.snapshot is None:
        return NOT_SEEN
    stores = state.stores
    agents = {name: True for name in state.nodes.names() if state.agents.alive(name)} \
        if config.node_operations == AGENT else {}
    now = time.time()
    head = Capture(now, config.planning, config.fabric.manager, config.fabric.attach_timeout,
                   config.node_operations, agents,
                   {kind.plural: () for kind in stores}, state.snapshot)
    file.write(json.dumps({"question": question, "capture": as_document(head)}) + "\n")
    for kind, keep in keepers(config.settings.label).items():
        for raw in stores[kind].each():
            file.write(json.dumps([kind.plural, keep(raw)]) + "\n")
    return ""
