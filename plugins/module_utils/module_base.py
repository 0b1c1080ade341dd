# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Common parts of all modules and plugins: how work runs and ends.

This file imports no driver, no client and no part of the engine, so that a small module carries
none of them to the host. ``fabric_module``, ``cluster_module`` and ``engine_module`` have the
options and connections of their groups.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ansible.module_utils.basic import AnsibleModule

from .environment import problem
from .fabric.errors import FabricError
from .inline_secrets import kubeconfig_secrets
from .kube.errors import ApiError, BadKubeconfig

KNOWN_ERRORS: tuple[type[Exception], ...] = (FabricError, ApiError, BadKubeconfig)


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The task as a piece of work sees it, in a module or in Ansible's own process.

    ``say`` shows progress while the task runs, if possible. ``warn`` shows a warning to the user,
    and ``deprecate`` shows a deprecation, with the arguments of AnsibleModule.deprecate.
    """

    params: Mapping[str, t.Any]
    check_mode: bool
    say: Callable[[str], object] = lambda text: None
    warn: Callable[[str], object] = lambda text: None
    deprecate: Callable[..., object] = lambda text, **_removed: None


Work = Callable[[TaskContext], dict[str, t.Any]]


def run_work(work: Work, task: TaskContext, errors: tuple[type[Exception], ...] = KNOWN_ERRORS) -> dict[str, t.Any]:
    """Return the result of a piece of work. Return an error of ``errors`` as a failure."""
    try:
        return work(task)
    except errors as error:
        return {"failed": True, "msg": str(error), "error": type(error).__name__}


class ConnectedModule(AnsibleModule):
    """A module that accepts a kubeconfig as a mapping.

    It removes the secrets of the kubeconfig from all results before it checks the first argument,
    because a failed check returns all arguments. ``no_log`` would remove every text of the mapping.
    If a wrong value is from an environment variable, the error names the variable.
    """

    _arguments: frozenset[str] = frozenset()
    _judged = False

    def __init__(self, argument_spec: dict[str, t.Any], **rest: t.Any) -> None:
        untyped: t.Any = super().__init__
        untyped(argument_spec, **rest)
        self._judged = True

    def fail_json(self, msg: str, **rest: t.Any) -> t.NoReturn:
        """End the module with a failure."""
        untyped: t.Any = super().fail_json
        untyped(msg if self._judged else problem(self.argument_spec, self._arguments) or msg, **rest)
        raise SystemExit(1)

    def _load_params(self) -> None:
        untyped: t.Any = super()._load_params
        untyped()
        if isinstance(self.params, dict):
            self._arguments = frozenset(self.params)
            self.no_log_values.update(self.inline_secrets(self.params))

    def inline_secrets(self, given: Mapping[str, t.Any]) -> set[str]:
        """Return the secrets in the module's arguments."""
        return kubeconfig_secrets(given.get("kubeconfig"))


def main(spec: Mapping[str, t.Any], work: Work) -> None:
    """Run a module with work that needs only a TaskContext."""
    module = ConnectedModule(**spec)
    result = run_work(work, TaskContext(module.params, module.check_mode, warn=module.warn,
                                        deprecate=module.deprecate))
    if result.get("failed"):
        module.fail_json(**result)
    module.exit_json(**result)
