# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Common parts of modules and plugins: connection options, and how work runs and ends.

This file imports nothing of the engine, so that a small module does not carry it to the host.
"""

from __future__ import annotations

import os
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ansible.module_utils.basic import AnsibleFallbackNotFound, AnsibleModule

from .environment import environment_value, problem, source_of
from .fabric.api import FabricManager
from .fabric.config import FabricConfig
from .fabric.connect import connect
from .fabric.errors import BadConfiguration, FabricError
from .fabric.registry import CREDENTIALS_OF
from .inline_secrets import kubeconfig_secrets
from .kube.errors import ApiError, BadKubeconfig

if t.TYPE_CHECKING:
    from .kube.client.verbs import Client

KNOWN_ERRORS: tuple[type[Exception], ...] = (FabricError, ApiError, BadKubeconfig)


def _option(name: str, **rest: t.Any) -> dict[str, t.Any]:
    return {"type": "str", "fallback": (environment_value, [f"COMPOSABLE_{name.upper()}"]), **rest}


FABRIC_OPTIONS: dict[str, dict[str, t.Any]] = {
    "manager": _option("manager", default="fm"),
    "driver_options": _option("driver_options", type="dict"),
    "endpoint": _option("endpoint"),
    "layout_endpoint": _option("layout_endpoint"),
    "tenant": _option("tenant"),
    "cluster": _option("cluster"),
    "machines": _option("machines", type="dict"),
    "auth": _option("auth", choices=list(CREDENTIALS_OF)),
    "username": _option("username"),
    "password": _option("password", no_log=True),
    "realm": _option("realm"),
    "client_id": _option("client_id"),
    "client_secret": _option("client_secret", no_log=True),
    "credentials_dir": _option("credentials_dir", type="path"),
    "ca_path": _option("ca_path", type="path"),
    "client_cert_path": _option("client_cert_path", type="path"),
    "client_key_path": _option("client_key_path", type="path", no_log=False),
    "validate_certs": _option("validate_certs", type="bool", default=True),
    "connect_timeout": _option("connect_timeout", type="float", default=5.0),
    "read_timeout": _option("read_timeout", type="float", default=30.0),
    "attach_timeout": _option("attach_timeout", type="float", default=180.0),
    "requests_per_second": _option("requests_per_second", type="float"),
}


def _kubernetes_option(*variables: str, **rest: t.Any) -> dict[str, t.Any]:
    return {"type": "str", "fallback": (environment_value, [f"K8S_AUTH_{name}" for name in variables]), **rest}


# Names, aliases and variables of kubernetes.core, so that module defaults serve both collections.
API_SERVER_OPTIONS: dict[str, dict[str, t.Any]] = {
    "kubeconfig": {"type": "raw", "fallback": (environment_value, ["K8S_AUTH_KUBECONFIG", "KUBECONFIG"])},
    "context": _kubernetes_option("CONTEXT"),
    "host": _kubernetes_option("HOST"),
    "api_key": _kubernetes_option("API_KEY", no_log=True),
    "ca_cert": _kubernetes_option("CA_CERT", "SSL_CA_CERT", type="path", aliases=["ssl_ca_cert"]),
    "client_cert": _kubernetes_option("CLIENT_CERT", "CERT_FILE", type="path", aliases=["cert_file"]),
    "client_key": _kubernetes_option("CLIENT_KEY", "KEY_FILE", type="path", aliases=["key_file"], no_log=False),
    "proxy": _kubernetes_option("PROXY"),
    "no_proxy": _kubernetes_option("NO_PROXY"),
    "impersonate_user": _kubernetes_option("IMPERSONATE_USER"),
    "impersonate_groups": _kubernetes_option("IMPERSONATE_GROUPS", type="list", elements="str"),
}
# The cluster inventory has CDI Manager options with these names. There, these begin with
# "kubernetes_".
LOGIN_OPTIONS: dict[str, dict[str, t.Any]] = {
    "username": _kubernetes_option("USERNAME"),
    "password": _kubernetes_option("PASSWORD", no_log=True),
    "validate_certs": _kubernetes_option("VALIDATE_CERTS", "VERIFY_SSL", type="bool", aliases=["verify_ssl"]),
}
CLUSTER_OPTIONS: dict[str, dict[str, t.Any]] = {**API_SERVER_OPTIONS, **LOGIN_OPTIONS}
CONFIG_OPTIONS: dict[str, dict[str, t.Any]] = {
    "config": {"type": "dict", "no_log": False},
    "config_path": _option("config_path", type="path"),
}
CONFIG_RULES: dict[str, t.Any] = {
    "mutually_exclusive": [("config", "config_path")],
    "required_one_of": [("config", "config_path")],
}


def fabric(params: Mapping[str, t.Any]) -> FabricManager:
    """Return the CDI Manager of the options. Raise FabricError, naming an environment variable."""
    try:
        return connect(FabricConfig.from_dict({k: params[k] for k in FABRIC_OPTIONS if params.get(k) is not None}))
    except BadConfiguration as error:
        variable = source_of(error.field, params.get(error.field), FABRIC_OPTIONS)
        if not variable:
            raise
        raise BadConfiguration(variable, error.value, error.allowed) from None


def cluster(params: Mapping[str, t.Any]) -> Client:
    """Return a client of the API server of the options. Raise BadKubeconfig.

    A blank kubeconfig or context counts as not set, because a rulebook cannot leave an option out.
    The client is imported here, so that modules for the CDI Manager load faster.
    """
    from .kube.client.connection import Connection
    from .kube.client.options import ConnectionOptions
    from .kube.client.verbs import Client

    given = ConnectionOptions.of({name: params.get(name) for name in CLUSTER_OPTIONS}, os.environ)
    kubeconfig, context = (params.get(name) or _of_variables(name) for name in ("kubeconfig", "context"))
    path = os.path.expandvars(kubeconfig) if isinstance(kubeconfig, str) else kubeconfig
    return Client(Connection.load(path, context, given=given))


def _of_variables(name: str) -> str | None:
    """Return the value from an option's variables, or None."""
    try:
        return environment_value(*API_SERVER_OPTIONS[name]["fallback"][1])
    except AnsibleFallbackNotFound:
        return None


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The task as a piece of work sees it, in a module or in Ansible's own process.

    ``say`` shows progress while the task runs, if possible. ``warn`` shows a warning to the user.
    """

    params: Mapping[str, t.Any]
    check_mode: bool
    say: Callable[[str], object] = lambda text: None
    warn: Callable[[str], object] = lambda text: None


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
    result = run_work(work, TaskContext(module.params, module.check_mode, warn=module.warn))
    if result.get("failed"):
        module.fail_json(**result)
    module.exit_json(**result)
