# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a cluster with the module stack_info, and judge it here by rules and the version matrix."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Mapping

from ansible.plugins.action import ActionBase

from ansible_collections.composable.infra.plugins.module_utils.cluster_module import CLUSTER_OPTIONS
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json

READER: t.Final = "composable.infra.stack_info"
OPTIONS: t.Final[dict[str, Json]] = {
    **CLUSTER_OPTIONS,
    "plan": {"type": "dict", "required": True},
    "hosts": {"type": "list", "elements": "dict", "default": []},
}


class Judgement(ActionBase):
    """Base of action plugins. Each has its ``judge`` and its ``options``.

    ``judge`` takes cluster and plan, and returns findings, report and stop. The module stack_info
    runs for each reading of the cluster, with the connection, user and environment of the task.
    """

    judge: t.ClassVar[staticmethod[[Mapping[str, t.Any], Mapping[str, t.Any]], Json]]
    options: t.ClassVar[dict[str, Json]] = OPTIONS
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: Json | None = None) -> Json:
        """Return the findings of the last reading, or the reason why the cluster cannot be read."""
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
        """Return the task's options for stack_info. The module reads the others from variables."""
        names = {name for option, spec in CLUSTER_OPTIONS.items() for name in (option, *spec.get("aliases", ()))}
        return {name: value for name, value in self._task.args.items() if name in names}
