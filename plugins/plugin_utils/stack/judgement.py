# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster read by the module stack_info, where the task runs, and judged here by rules and the version matrix."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Mapping

from ansible.plugins.action import ActionBase

from ansible_collections.composable.infra.plugins.module_utils.module_base import CLUSTER_OPTIONS

Json = dict[str, t.Any]
READER: t.Final = "composable.infra.stack_info"
OPTIONS: t.Final[dict[str, Json]] = {
    **CLUSTER_OPTIONS,
    "plan": {"type": "dict", "required": True},
    "hosts": {"type": "list", "elements": "dict", "default": []},
}


class Judgement(ActionBase):
    """Base of action plugins; each names its ``judge`` (cluster, plan -> findings, report, stop) and its ``options``.

    The module behind it runs for each look at the cluster, with the connection, user and environment of the task.
    """

    judge: t.ClassVar[staticmethod[[Mapping[str, t.Any], Mapping[str, t.Any]], Json]]
    options: t.ClassVar[dict[str, Json]] = OPTIONS
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: Json | None = None) -> Json:
        """The result of the task: the last look's findings, or why the cluster could not be read."""
        result: Json = super().run(tmp, task_vars)
        me: t.Any = self
        _checked, params = me.validate_argument_spec(self.options)
        end = time.monotonic() + (params.get("wait_timeout") or 0.0 if params.get("wait") else 0.0)
        while True:
            seen: Json = self._execute_module(module_name=READER, module_args=self._connection_of(),
                                              task_vars=task_vars)
            if "stack" not in seen:
                return result | seen | {"failed": True}
            found = type(self).judge({**seen["stack"], "hosts": params["hosts"]}, params["plan"])
            if not found["stop"] or time.monotonic() >= end:
                return result | {"changed": False} | found
            time.sleep(min(params["wait_sleep"], max(end - time.monotonic(), 0.0)))

    def _connection_of(self) -> Json:
        """The options of stack_info as the task has them: what it does not name the module takes from its variables."""
        names = {name for option, spec in CLUSTER_OPTIONS.items() for name in (option, *spec.get("aliases", ()))}
        return {name: value for name, value in self._task.args.items() if name in names}
