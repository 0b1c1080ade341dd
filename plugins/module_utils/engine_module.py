# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Common parts of modules that run the engine: its configuration and its errors."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

from ansible.module_utils.basic import AnsibleModule

from . import module_base
from .cluster_module import CLUSTER_OPTIONS
from .environment import environment_value
from .module_base import ConnectedModule, TaskContext, Work
from .reconcile.config import BadConfig, EngineConfig
from .reconcile.oneshot.run import NotReady

KNOWN_ERRORS: tuple[type[Exception], ...] = (*module_base.KNOWN_ERRORS, BadConfig, NotReady)
CONFIG_OPTIONS: dict[str, dict[str, t.Any]] = {
    "config": {"type": "dict", "no_log": False},
    "config_path": {"type": "path", "fallback": (environment_value, ["COMPOSABLE_CONFIG_PATH"])},
}
CONFIG_RULES: dict[str, t.Any] = {
    "mutually_exclusive": [("config", "config_path")],
    "required_one_of": [("config", "config_path")],
}
SECRETS = ("password", "client_secret", "ca_pem")


class EngineModule(ConnectedModule):
    """A module with an inline configuration of the engine. It never returns the secrets in it."""

    def inline_secrets(self, given: Mapping[str, t.Any]) -> set[str]:
        """Return the secrets in the module's arguments."""
        return super().inline_secrets(given) | config_secrets(given.get("config"))


def config_secrets(inline: object) -> set[str]:
    """Return the secrets of the option ``config``."""
    fabric_options = inline.get("fabric") if isinstance(inline, dict) else None
    known = fabric_options if isinstance(fabric_options, dict) else {}
    return {str(known[name]) for name in SECRETS if known.get(name)}


def config(module: AnsibleModule | TaskContext) -> EngineConfig:
    """Return the engine's configuration from ``config_path`` (a YAML file) or ``config``.

    Show a deprecation for each key with its former name. Raise BadConfig with a sentence that names
    the field, its value and the allowed values.
    """
    params = module.params
    if params.get("config_path"):
        found = EngineConfig.load(params["config_path"])
    else:
        found = EngineConfig.from_dict(params["config"])
    for text in found.deprecations:
        module.deprecate(text, version="2.0.0", collection_name="composable.infra")
    return found


def spec(**options: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return AnsibleModule's arguments for a module that runs the engine.

    ``options`` are added to the common options.
    """
    common = {**CONFIG_OPTIONS, **CLUSTER_OPTIONS, "ready_timeout": {"type": "float", "default": 30.0}}
    return {"argument_spec": {**common, **options}, "supports_check_mode": True, **CONFIG_RULES}


def main(given: Mapping[str, t.Any], work: Work) -> None:
    """Run a module with work that needs only a TaskContext. ``given`` is from ``spec``."""
    module = EngineModule(**given)
    task = TaskContext(module.params, module.check_mode, warn=module.warn, deprecate=module.deprecate)
    run(module, lambda _module: work(task))


def run(module: AnsibleModule, work: Callable[[AnsibleModule], dict[str, t.Any]]) -> None:
    """Run a module's work and end the process.

    ``work(module)`` returns the result for Ansible. If it has ``failed``, the module fails. An
    error of KNOWN_ERRORS fails the module with its text as ``msg`` and its class as ``error``.
    Other errors are raised.
    """
    try:
        result = work(module)
    except KNOWN_ERRORS as error:
        module.fail_json(msg=str(error), error=type(error).__name__)
    if result.get("failed"):
        module.fail_json(**result)
    module.exit_json(**result)
