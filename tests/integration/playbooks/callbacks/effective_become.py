# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes down of each task that ran where it ran and whether it was escalated, as Ansible itself has resolved it."""

from __future__ import annotations

import json
import os
import typing as t

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    """One line of JSON for each task that ran on a host."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "effective_become"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result: t.Any) -> None:
        """A task ran."""
        task = result.task
        line = {"task": task.get_name(), "action": task.resolved_action, "host": result.host.get_name(),
                "delegated": task.delegate_to, "become": task.become}
        with open(os.environ["EFFECTIVE_BECOME"], "a", encoding="utf-8") as target:
            target.write(json.dumps(line) + "\n")
