# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules that run the engine share: its configuration, and its errors as one sentence."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ansible.module_utils.basic import AnsibleModule

from . import module_base
from .module_base import CLUSTER_OPTIONS, CONFIG_OPTIONS, CONFIG_RULES, FABRIC_OPTIONS, cluster
from .reconcile.config import BadConfig, EngineConfig
from .reconcile.oneshot.run import NotReady

__all__ = ["CLUSTER_OPTIONS", "CONFIG_OPTIONS", "CONFIG_RULES", "FABRIC_OPTIONS", "KNOWN_ERRORS", "EngineModule",
           "cluster", "config", "main", "run"]
KNOWN_ERRORS: tuple[type[Exception], ...] = (*module_base.KNOWN_ERRORS, BadConfig, NotReady)
SECRETS = ("password", "client_secret", "ca_pem")


class EngineModule(AnsibleModule):
    """A module that may be given the engine's configuration inline.

    Its secrets are taken out of everything that is returned, before the first argument is judged: ``no_log`` knows
    options only, and a refusal returns all arguments.
    """

    def __init__(self, argument_spec: dict[str, t.Any], **rest: t.Any) -> None:
        untyped: t.Any = super().__init__
        untyped(argument_spec, **rest)

    def _load_params(self) -> None:
        untyped: t.Any = super()._load_params
        untyped()
        inline = self.params.get("config") if isinstance(self.params, dict) else None
        fabric_options = inline.get("fabric") if isinstance(inline, dict) else None
        if isinstance(fabric_options, dict):
            self.no_log_values.update(str(fabric_options[k]) for k in SECRETS if fabric_options.get(k))


def config(module: AnsibleModule) -> EngineConfig:
    """The engine's configuration, from the option ``config_path`` (a YAML file) or else ``config`` (a mapping).

    Raises BadConfig with one sentence that names the field, its value and what is allowed.
    """
    params = module.params
    if params.get("config_path"):
        return EngineConfig.load(params["config_path"])
    return EngineConfig.from_dict(params["config"])


def main(work: Callable[[AnsibleModule], dict[str, t.Any]], **options: dict[str, t.Any]) -> None:
    """Entry of a module that runs the engine against a cluster: its own ``options`` come beside the common ones."""
    common = {**CONFIG_OPTIONS, **CLUSTER_OPTIONS, "ready_timeout": {"type": "float", "default": 30.0}}
    run(EngineModule({**common, **options}, supports_check_mode=True, **CONFIG_RULES), work)


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
