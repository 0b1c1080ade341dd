# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the engine in Ansible's own process, for a driver of another collection.

Ansible packs with a module only the files that it imports, and our modules cannot import that
driver. Ansible's own process finds every installed collection. With our own drivers the module runs
in a process that ends with the task.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible.module_utils.basic import AnsibleFallbackNotFound
from ansible.utils.path import unfrackpath

from ansible_collections.composable.infra.plugins.module_utils.engine_module import (
    CONFIG_OPTIONS,
    KNOWN_ERRORS,
    config_secrets,
)
from ansible_collections.composable.infra.plugins.module_utils.environment import environment_value
from ansible_collections.composable.infra.plugins.module_utils.fabric.external import collection_of
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig, loaded
from ansible_collections.composable.infra.plugins.plugin_utils.inprocess import InProcess


class EngineInProcess(InProcess):
    """Base of action plugins of modules that take the engine's configuration."""

    errors = KNOWN_ERRORS

    def _needs_a_process(self, task_vars: Mapping[str, t.Any]) -> bool:
        return super()._needs_a_process(task_vars) or not collection_of(self._manager())

    def _manager(self) -> object:
        """Return the CDI Manager of the configuration. The module reports read errors."""
        args = self._task.args
        try:
            data = args["config"] if "config" in args else loaded(_path(args.get("config_path")))
        except (AnsibleFallbackNotFound, BadConfig):
            return None
        fabric = data.get("fabric") if isinstance(data, Mapping) else None
        return fabric.get("manager") if isinstance(fabric, Mapping) else None

    def _secrets(self) -> set[str]:
        return super()._secrets() | config_secrets(self._task.args.get("config"))


def _path(given: object) -> str:
    """Return the path of the configuration file. Raise AnsibleFallbackNotFound."""
    found = given or environment_value(*CONFIG_OPTIONS["config_path"]["fallback"][1])
    return str(unfrackpath(str(found), follow=False))
