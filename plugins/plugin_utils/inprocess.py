# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module's work in Ansible's own process if the connection is local.

The module itself runs if the task needs its own process, for another host, user, interpreter or
environment, or in the background. If the driver of the CDI Manager is from another collection, the
module of the same name in that collection runs. Ansible packs with a module only the files that it
imports, and our module cannot import that driver.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.parameters import remove_values
from ansible.module_utils.errors import AnsibleValidationErrorMultiple, UnsupportedError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.composable.infra.plugins.module_utils.environment import problem
from ansible_collections.composable.infra.plugins.module_utils.fabric.external import collection_of
from ansible_collections.composable.infra.plugins.module_utils.inline_secrets import kubeconfig_secrets
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.module_base import (
    KNOWN_ERRORS,
    TaskContext,
    Work,
    run_work,
)

RULES = ("mutually_exclusive", "required_together", "required_one_of", "required_if", "required_by")


class InProcess(ActionBase):
    """Base of action plugins. Each has ``spec`` and ``work`` of the module with its name."""

    spec: t.ClassVar[Mapping[str, t.Any]]
    work: t.ClassVar[Work]
    errors: t.ClassVar[tuple[type[Exception], ...]] = KNOWN_ERRORS
    _supports_check_mode = True
    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: Json | None = None) -> Json:
        """Return the result of the task."""
        result: Json = super().run(tmp, task_vars)
        if self._needs_a_process(task_vars or {}):
            module = self._module()
            return result | (self._as_module(task_vars, module) if self._exists(module) else self._no_module(module))
        return result | self._here()

    def _needs_a_process(self, task_vars: Mapping[str, t.Any]) -> bool:
        task = self._task
        environment = [e for e in task.environment or () if e]
        return bool(self._connection.transport != "local" or self._play_context.become or task.async_val or environment)

    def _manager(self) -> object:
        """Return the CDI Manager of the task."""
        return self._task.args.get("manager")

    def _secrets(self) -> set[str]:
        """Return the secrets in arguments that are mappings."""
        return kubeconfig_secrets(self._task.args.get("kubeconfig"))

    def _module(self) -> str:
        """Return the module for a separate process, in the collection of the driver."""
        collection = collection_of(self._manager())
        action = str(self._task.action)
        return f"{collection}.{action.rpartition('.')[2]}" if collection else action

    def _exists(self, module: str) -> bool:
        if module == self._task.action:
            return True
        return bool(self._shared_loader_obj.module_loader.find_plugin_with_context(module).resolved)

    def _no_module(self, module: str) -> Json:
        """Refuse the task, because a separate process cannot have the driver."""
        words = (f"manager: {self._manager()!r} is not allowed, since the task runs on another host, as another user, "
                 f"with an environment or in the background, so it needs the module {module}, which is not installed")
        return {"failed": True, "changed": False, "msg": words, "error": "BadConfiguration"}

    def _as_module(self, task_vars: Json | None, module: str) -> Json:
        in_background = bool(self._task.async_val and not self._connection.has_native_async)
        found: Json = self._execute_module(module_name=module, task_vars=task_vars, wrap_async=in_background)
        if not in_background:
            me: t.Any = self
            me._remove_tmp_path(self._connection._shell.tmpdir)
        return found

    def _here(self) -> Json:
        """Check the arguments like a module, do the work, and remove secrets from the result."""
        validator = ArgumentSpecValidator(
            self.spec["argument_spec"], **{rule: self.spec[rule] for rule in RULES if rule in self.spec}
        )
        checked = validator.validate(dict(self._task.args))
        secrets = set(checked._no_log_values) | self._secrets()
        if checked.error_messages:
            words = problem(self.spec["argument_spec"], self._task.args) or self._refusal(checked.errors)
            return _clean({"failed": True, "msg": words}, secrets)
        task = TaskContext(checked.validated_parameters, bool(self._task.check_mode), self._say,
                           Display().warning, Display().deprecated)
        return _clean({"changed": False} | run_work(type(self).work, task, self.errors), secrets)

    def _refusal(self, errors: AnsibleValidationErrorMultiple) -> str:
        """Return AnsibleModule's error, which names the module for an unknown option."""
        unknown = isinstance(errors[0], UnsupportedError)
        return f"Unsupported parameters for ({self._task.action}) module: {errors.msg}" if unknown else str(errors.msg)

    def _say(self, text: str) -> None:
        Display().v(f"{self._task.action}: {text}")


def _clean(result: Json, secrets: set[str]) -> Json:
    return t.cast(Json, remove_values(result, secrets)) if secrets else result
