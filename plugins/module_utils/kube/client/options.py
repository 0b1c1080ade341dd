# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connection options of the user: module options, or the variables of kubernetes.core."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import BadKubeconfig
from .credentials import Fixed, TokenFile
from .kubeconfig import Entry

# Variables by option. The first that is not blank counts.
# Source: kubernetes.core, ``plugins/module_utils/k8s/client.py``, _create_auth_spec and
# _create_headers.
VARIABLES: dict[str, tuple[str, ...]] = {
    "host": ("K8S_AUTH_HOST",),
    "api_key": ("K8S_AUTH_API_KEY",),
    "username": ("K8S_AUTH_USERNAME",),
    "password": ("K8S_AUTH_PASSWORD",),
    "validate_certs": ("K8S_AUTH_VALIDATE_CERTS", "K8S_AUTH_VERIFY_SSL"),
    "ca_cert": ("K8S_AUTH_CA_CERT", "K8S_AUTH_SSL_CA_CERT"),
    "client_cert": ("K8S_AUTH_CLIENT_CERT", "K8S_AUTH_CERT_FILE"),
    "client_key": ("K8S_AUTH_CLIENT_KEY", "K8S_AUTH_KEY_FILE"),
    "proxy": ("K8S_AUTH_PROXY",),
    "no_proxy": ("K8S_AUTH_NO_PROXY",),
    "impersonate_user": ("K8S_AUTH_IMPERSONATE_USER",),
    "impersonate_groups": ("K8S_AUTH_IMPERSONATE_GROUPS",),
}
ALIASES = {"verify_ssl": "validate_certs", "ssl_ca_cert": "ca_cert", "cert_file": "client_cert",
           "key_file": "client_key"}
_FIELDS = {"api_key": "token", "ca_cert": "ca_file"}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The arguments of ``Connection.load`` from its caller. None stands for the value that is found
    elsewhere.

    ``host``: URL of the API server. ``token``: text. ``token_file``, ``ca_file``, ``client_cert``,
    ``client_key``: paths. ``ca_data``: PEM text. ``username``, ``password``: used without a token.
    ``validate_certs``: check the server's certificate. ``proxy``: URL of a proxy. ``no_proxy``:
    hosts that need no proxy. ``impersonate_user``, ``impersonate_groups``: user and groups in the
    name of which requests are made.
    """

    host: str | None = None
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    ca_file: str | None = None
    ca_data: str | None = field(default=None, repr=False)
    client_cert: str | None = None
    client_key: str | None = None
    validate_certs: bool | None = None
    proxy: str | None = field(default=None, repr=False)
    no_proxy: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    impersonate_user: str | None = None
    impersonate_groups: Sequence[str] | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any], environ: Mapping[str, str]) -> ConnectionOptions:
        """Read options by name or alias, as a module or a rulebook has them, else environment
        variables.

        A value of None or a blank text is ignored. Raise BadKubeconfig.
        """
        named = {ALIASES.get(name, name): value for name, value in given.items() if not _blank(value)}
        found: dict[str, Any] = {}
        for option, variables in VARIABLES.items():
            where, value = _first(option, variables, named, environ)
            if value is not None:
                found[_FIELDS.get(option, option)] = _typed(option, where, value)
        return cls(**found)

    @property
    def complete(self) -> bool:
        """Return whether the options have server and credentials, so that no kubeconfig is read.

        As in kubernetes.core.
        """
        login = self.token or (self.username and self.password) or (self.client_cert and self.client_key)
        return bool(self.host and login)

    def server(self) -> str | None:
        """Return ``host`` as a URL. Raise BadKubeconfig."""
        return self._entry().url("host") if self.host else None

    def changes(self) -> dict[str, Any]:
        """Return the given fields of a Connection except impersonation. Raise BadKubeconfig."""
        entry = self._entry()
        found: dict[str, Any] = {
            "server": self.server(), "ca": self.ca_data or entry.pem("ca_file"),
            "client_cert": entry.pem("client_cert"), "client_key": entry.pem("client_key"),
            "proxy_url": self.proxy, "no_proxy": self.no_proxy, "verify": self.validate_certs,
        }
        if self.token:
            found["authorization"] = Fixed.bearer(self.token)
        elif self.token_file:
            found["authorization"] = TokenFile(self.token_file, "arguments", "token_file")
        elif self.username:
            found["authorization"] = Fixed.basic(self.username, self.password or "")
        return {name: value for name, value in found.items() if value is not None}

    def _entry(self) -> Entry:
        paths = {"ca_file": self.ca_file, "client_cert": self.client_cert, "client_key": self.client_key}
        return Entry("arguments", "connection", os.curdir, {"host": self.host, **paths})


def _blank(value: Any) -> bool:
    return value is None or value == [] or (isinstance(value, str) and not value.strip())


def _first(option: str, variables: Sequence[str], given: Mapping[str, Any],
           environ: Mapping[str, str]) -> tuple[str, Any]:
    """Return the name of the source, for messages, and its value, None if no source has a value."""
    if option in given:
        return option, given[option]
    said = ((name, text) for name in variables if (text := environ.get(name, "").strip()))
    return next(said, (option, None))


def _typed(option: str, where: str, value: Any) -> Any:
    source = "environment" if where.startswith("K8S_AUTH_") else "arguments"
    if option == "validate_certs":
        return _truth(source, where, value)
    if option == "impersonate_groups" and isinstance(value, str):
        return [group.strip() for group in value.split(",") if group.strip()]
    kind = list if option == "impersonate_groups" else str
    if not isinstance(value, kind):
        wanted = "a list" if kind is list else "text"
        raise BadKubeconfig(source, where, f"must be {wanted}, not {type(value).__name__}")
    return value


def _truth(source: str, where: str, value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in (*_TRUE, *_FALSE):
        raise BadKubeconfig(source, where, f"must be true or false, not {text!r}")
    return text in _TRUE
