# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options and client of the API server, for the modules and plugins that need it."""

from __future__ import annotations

import os
import typing as t
from collections.abc import Mapping

from ansible.module_utils.basic import AnsibleFallbackNotFound

from .environment import environment_value
from .kube.client.connection import Connection
from .kube.client.options import ConnectionOptions
from .kube.client.verbs import Client


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


def cluster(params: Mapping[str, t.Any]) -> Client:
    """Return a client of the API server of the options. Raise BadKubeconfig.

    A blank kubeconfig or context counts as not set, because a rulebook cannot leave an option out.    """
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
