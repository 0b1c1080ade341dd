# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules that run the engine share: its configuration, and its errors as one sentence."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

from ansible.module_utils.basic import AnsibleModule

from . import module_base
from .module_base import (
    CLUSTER_OPTIONS,
    CONFIG_OPTIONS,
    CONFIG_RULES,
    FABRIC_OPTIONS,
    ConnectedModule,
    TaskContext,
    Work,
    cluster,
)
from .reconcile.config import BadConfig, EngineConfig
from .reconcile.oneshot.run import NotReady

__all__ = ["CLUSTER_OPTIONS", "CONFIG_OPTIONS", "CONFIG_RULES", "FABRIC_OPTIONS", "KNOWN_ERRORS", "ConnectedModule",
           "EngineModule", "cluster", "config", "config_secrets", "main", "run", "spec"]
KNOWN_ERRORS: tuple[type[Exception], ...] = (*module_base.KNOWN_ERRORS, BadConfig, NotReady)
SECRETS = ("password", "client_secret", "ca_pem")


class EngineModule(ConnectedModule):
    """A module that may be given the engine's configuration inline, whose secrets are never returned either."""

    def inline_secrets(self, given: Mapping[str, t.Any]) -> set[str]:
        """Secrets within the module's arguments."""
        return super().inline_secrets(given) | config_secrets(given.get("config"))


def config_secrets(inline: object) -> set[str]:
    """Return the secrets of the option ``config``."""
    fabric_options = inline.get("fabric") if isinstance(inline, dict) else None
    known = fabric_options if isinstance(fabric_options, dict) else {}
    return {str(known[name]) for name in SECRETS if known.get(name)}


def config(module: AnsibleModule | TaskContext) -> EngineConfig:
    """The engine's configuration, from the option ``config_path`` (a YAML file) or else ``config`` (a mapping).

    Raises BadConfig with one sentence that names the field, its value and what is allowed.
    """
    params = module.params
    if params.get("config_path"):
        return EngineConfig.load(params["config_path"])
    return EngineConfig.from_dict(params["config"])


def spec(**options: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return what AnsibleModule takes for a module that runs the engine: ``options`` come beside the common ones."""
    common = {**CONFIG_OPTIONS, **CLUSTER_OPTIONS, "ready_timeout": {"type": "float", "default": 30.0}}
    return {"argument_spec": {**common, **options}, "supports_check_mode": True, **CONFIG_RULES}


def main(given: Mapping[str, t.Any], work: Work) -> None:
    """Entry of a module whose work needs nothing but a TaskContext. ``given``: as ``spec`` returns it."""
    module = EngineModule(**given)
    run(module, lambda _module: work(TaskContext(module.params, module.check_mode, warn=module.warn)))


def run(module: AnsibleModule, work: Callable[[AnsibleModule], dict[str, t.Any]]) -> None:
    """Run a module's work and end the process.

    ``work(module)`` returns the result as Ansible takes it; one with ``failed`` fails the module. An error of
    KNOWN_ERRORS fails it with its one sentence as ``msg`` and its class as ``error``; any other error is raised.
    """
    try:
        result = work(module)
    except KNOWN_ERRORS as error:
        module.fail_json(msg=str(error), error=type(error).__name__)
    if result.get("failed"):
        module.fail_json(**result)
    module.exit_json(**result)
