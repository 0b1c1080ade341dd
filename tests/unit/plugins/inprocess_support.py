# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_inprocess.py` and others share."""

from __future__ import annotations

import typing as t
from types import SimpleNamespace

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Refused
from ansible_collections.composable.infra.plugins.module_utils.module_base import TaskContext
from ansible_collections.composable.infra.plugins.plugin_utils.inprocess import InProcess

SPEC: dict[str, t.Any] = {
    "argument_spec": {"name": {"type": "str"}, "count": {"type": "int", "default": 1},
                      "password": {"type": "str", "no_log": True}},
    "required_one_of": [("name", "password")], "supports_check_mode": True}
Result = dict[str, t.Any]
# Modules of collections of others.
INSTALLED = ("acme.toy.echo",)


def work(module: TaskContext) -> Result:
    if module.params["name"] == "refuse":
        raise Refused(f"no: {module.params['password']}")
    module.say("half done")
    return {"changed": not module.check_mode, "told": [dict(module.params)]}


class Action(InProcess):
    """An action plugin of a module that echoes its arguments."""

    spec = SPEC
    work = work

    def __init__(self, task: SimpleNamespace, transport: str, become: bool) -> None:
        self._task: t.Any = task
        self._connection: t.Any = SimpleNamespace(transport=transport, has_native_async=False,
                                                  _shell=SimpleNamespace(tmpdir="/tmp/of-a-task"))
        self._play_context: t.Any = SimpleNamespace(become=become)
        self.modules: list[t.Any] = []
        self.names: list[str] = []
        found = SimpleNamespace(find_plugin_with_context=lambda name: SimpleNamespace(resolved=name in INSTALLED))
        self._shared_loader_obj: t.Any = SimpleNamespace(module_loader=found)

    def _execute_module(self, *args: t.Any, **more: t.Any) -> Result:
        self.modules.append(more.get("wrap_async"))
        self.names.append(more["module_name"])
        return {"changed": False, "as": "module"}

    def _remove_tmp_path(self, tmp_path: str, force: bool = False) -> None:
        assert tmp_path == "/tmp/of-a-task"
