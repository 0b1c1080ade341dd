# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module shares: the connection options, and how errors of any layer become one sentence for the user."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping
from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule, env_fallback

from .fabric.config import FabricConfig
from .fabric.errors import FabricError
from .fabric.managers import connect
from .fabric.types import Device, Fabric, Machine
from .kube.client import Client
from .kube.connection import Connection
from .kube.errors import ApiError, BadKubeconfig
from .reconcile.config import BadConfig, EngineConfig
from .reconcile.session import NotReady


def _option(name: str, **rest: t.Any) -> dict[str, t.Any]:
    return {"type": "str", "fallback": (env_fallback, [f"COMPOSABLE_{name.upper()}"]), **rest}


FABRIC_OPTIONS: dict[str, dict[str, t.Any]] = {
    "manager": _option("manager", default="fm", choices=["fm"]),
    "endpoint": _option("endpoint"),
    "tenant": _option("tenant"),
    "username": _option("username"),
    "password": _option("password", no_log=True),
    "realm": _option("realm"),
    "client_id": _option("client_id"),
    "client_secret": _option("client_secret", no_log=True),
    "credentials_dir": _option("credentials_dir", type="path"),
    "ca_path": _option("ca_path", type="path"),
    "validate_certs": _option("validate_certs", type="bool", default=True),
    "connect_timeout": _option("connect_timeout", type="float", default=5.0),
    "read_timeout": _option("read_timeout", type="float", default=30.0),
    "attach_timeout": _option("attach_timeout", type="float", default=180.0),
}
CLUSTER_OPTIONS: dict[str, dict[str, t.Any]] = {
    "kubeconfig": {"type": "path", "fallback": (env_fallback, ["K8S_AUTH_KUBECONFIG", "KUBECONFIG"])},
    "context": {"type": "str", "fallback": (env_fallback, ["K8S_AUTH_CONTEXT"])},
}
CONFIG_OPTIONS: dict[str, dict[str, t.Any]] = {
    "config": {"type": "dict", "no_log": False},
    "config_path": _option("config_path", type="path"),
}
CONFIG_RULES: dict[str, t.Any] = {
    "mutually_exclusive": [("config", "config_path")],
    "required_one_of": [("config", "config_path")],
}


def fabric(params: Mapping[str, t.Any]) -> Fabric:
    """The CDI Manager that the options name. Raises FabricError."""
    return connect(FabricConfig.from_dict({k: params[k] for k in FABRIC_OPTIONS if params.get(k) is not None}))


def cluster(params: Mapping[str, t.Any]) -> Client:
    """The API server that the options name. Raises BadKubeconfig."""
    return Client(Connection.load(params.get("kubeconfig"), params.get("context")))


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
    """The engine's configuration from ``config`` or ``config_path``. Raises BadConfig."""
    params = module.params
    if params.get("config_path"):
        return EngineConfig.load(params["config_path"])
    return EngineConfig.from_dict(params["config"])


def run(module: AnsibleModule, work: Callable[[AnsibleModule], dict[str, t.Any]]) -> None:
    """Run a module's work and exit with its result; any known error becomes its one sentence."""
    try:
        result = work(module)
    except (FabricError, ApiError, BadKubeconfig, BadConfig, NotReady) as error:
        module.fail_json(msg=str(error), error=type(error).__name__)
    module.exit_json(**result)


def device_result(device: Device) -> dict[str, t.Any]:
    """A device as modules return it."""
    return asdict(device)


def machine_result(machine: Machine) -> dict[str, t.Any]:
    """A machine with its devices as modules return it."""
    return {"uid": machine.uid, "name": machine.name, "fabric": machine.fabric,
            "devices": [device_result(d) for d in machine.devices]}
