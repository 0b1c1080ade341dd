# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the API server is and how to prove who we are, from the sources that kubectl and client-go use."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from ...net.proxy import Proxy, bypassed, proxy_of_environment
from ..errors import BadKubeconfig
from . import tls
from .credentials import Authorization, Fixed, LibraryAuthorization, TokenFile
from .kubeconfig import Entry, Kubeconfig

_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# Source: kubernetes.core, plugins/module_utils/args_common.py, AUTH_ARG_SPEC.
VARIABLES = {"host": "K8S_AUTH_HOST", "token": "K8S_AUTH_API_KEY", "username": "K8S_AUTH_USERNAME",
             "password": "K8S_AUTH_PASSWORD", "ca_file": "K8S_AUTH_SSL_CA_CERT", "client_cert": "K8S_AUTH_CERT_FILE",
             "client_key": "K8S_AUTH_KEY_FILE", "proxy": "K8S_AUTH_PROXY", "no_proxy": "K8S_AUTH_NO_PROXY"}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True, slots=True)
class Connection:
    """Everything a Client needs; ``ca``, ``client_cert`` and ``client_key`` are PEM text.

    ``namespace`` is the default namespace of the context or of the service account.
    """

    server: str
    authorization: Authorization = field(default_factory=lambda: Fixed(None), repr=False)
    ca: str | None = field(default=None, repr=False)
    client_cert: str | None = field(default=None, repr=False)
    client_key: str | None = field(default=None, repr=False)
    verify: bool = True
    tls_server_name: str | None = None
    proxy_url: str | None = field(default=None, repr=False)
    no_proxy: str = ""
    namespace: str = "default"
    source: str = "arguments"

    @classmethod
    def load(
        cls,
        kubeconfig: str | Mapping[str, Any] | None = None,
        context: str | None = None,
        *,
        given: ConnectionOptions | None = None,
        environ: Mapping[str, str] | None = None,
        service_account: str = _SERVICE_ACCOUNT,
    ) -> Connection:
        """The connection for the given arguments; what is given wins over what is found.

        Order of sources: ``given.host``, ``kubeconfig`` (path, several joined by ``os.pathsep``, or a mapping) with
        its ``context``, the variable KUBECONFIG of ``environ``, then ~/.kube/config, then the pod's service account
        (a folder). Raises BadKubeconfig.
        """
        env = os.environ if environ is None else environ
        given = given or ConnectionOptions()
        if given.complete or (given.host and not kubeconfig):
            base = cls(given.server() or "")
        else:
            base = _from_sources(kubeconfig, context, env, service_account)
        return replace(base, **given.changes())

    def ssl_context(self) -> ssl.SSLContext | None:
        """One context for all connections; None for plain http. Raises BadKubeconfig for unusable PEM."""
        if not self.server.startswith("https:"):
            return None
        return tls.context(self.source, self.ca, self.client_cert, self.client_key, self.verify)

    def proxy(self) -> Proxy | None:
        """The proxy that ``proxy_url`` or the environment names for the server. Raises BadKubeconfig.

        ``no_proxy`` counts for both: hosts, domains, addresses and ranges that are reached directly.
        """
        if self.no_proxy and bypassed(self.server, self.no_proxy):
            return None
        url = self.proxy_url or proxy_of_environment(self.server)
        try:
            return Proxy.parse(url) if url else None
        except ValueError as problem:
            raise BadKubeconfig(self.source if self.proxy_url else "environment", "proxy-url", str(problem)) from None


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """What the caller of ``Connection.load`` says itself; None: as it is found.

    ``host``: URL of the API server. ``token`` is the text, ``token_file``, ``ca_file``, ``client_cert`` and
    ``client_key`` are paths, ``ca_data`` is PEM text. ``username`` and ``password``: where there is no token.
    ``validate_certs``: check the server's certificate. ``proxy``: URL of a proxy. ``no_proxy``: what needs none.
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

    @classmethod
    def of_environment(cls, environ: Mapping[str, str]) -> ConnectionOptions:
        """What the variables of kubernetes.core say; one that is blank says nothing. Raises BadKubeconfig."""
        found: dict[str, Any] = {name: text for name, variable in VARIABLES.items()
                                 if (text := environ.get(variable, "").strip())}
        verify = environ.get("K8S_AUTH_VERIFY_SSL", "").strip().lower()
        if verify and verify not in (*_TRUE, *_FALSE):
            raise BadKubeconfig("environment", "K8S_AUTH_VERIFY_SSL", f"must be true or false, not {verify!r}")
        return cls(**found, validate_certs=verify in _TRUE if verify else None)

    @property
    def complete(self) -> bool:
        """Whether this is where and who, so that no kubeconfig is asked. As kubernetes.core has it."""
        login = self.token or (self.username and self.password) or (self.client_cert and self.client_key)
        return bool(self.host and login)

    def server(self) -> str | None:
        """``host`` as a URL. Raises BadKubeconfig."""
        return _server_url(self._entry(), "host") if self.host else None

    def changes(self) -> dict[str, Any]:
        """The fields of a Connection that are given. Raises BadKubeconfig."""
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


def _from_sources(
    kubeconfig: str | Mapping[str, Any] | None,
    context: str | None,
    env: Mapping[str, str],
    service_account: str,
) -> Connection:
    if isinstance(kubeconfig, Mapping):
        return _from_kubeconfig(Kubeconfig([("kubeconfig", os.curdir, kubeconfig)]), context, kubeconfig)
    if kubeconfig:
        paths = [os.path.expanduser(path) for path in str(kubeconfig).split(os.pathsep) if path]
        return _from_kubeconfig(Kubeconfig.read(paths), context, os.pathsep.join(paths))
    found = _found_files(env)
    if found:
        return _from_kubeconfig(Kubeconfig.read(found), context, os.pathsep.join(found))
    return _from_service_account(env, service_account)


def _found_files(env: Mapping[str, str]) -> list[str]:
    named = [os.path.expanduser(path) for path in env.get("KUBECONFIG", "").split(os.pathsep) if path]
    if named:
        # kubectl skips absent files of the list, but a list without any file is a mistake worth naming.
        return [path for path in named if os.path.exists(path)] or named
    default = os.path.join(env.get("HOME") or os.path.expanduser("~"), ".kube", "config")
    return [default] if os.path.exists(default) else []


def _from_kubeconfig(config: Kubeconfig, name: str | None, original: str | Mapping[str, Any]) -> Connection:
    context, cluster, user = config.select(name)
    base = Connection(
        server=_server_url(cluster, "server"),
        ca=cluster.pem("certificate-authority"),
        verify=not cluster.flag("insecure-skip-tls-verify"),
        tls_server_name=cluster.text("tls-server-name"),
        proxy_url=cluster.text("proxy-url"),
        namespace=context.text("namespace") or "default",
        source=config.sources,
    )
    if "exec" in user.values or "auth-provider" in user.values:
        return _from_library(base, user, name, original)
    return _with_user(base, user)


def _with_user(base: Connection, user: Entry) -> Connection:
    cert, key = user.pem("client-certificate"), user.pem("client-key")
    if bool(cert) != bool(key):
        missing = "client-key" if cert else "client-certificate"
        raise user.bad(missing, "is missing; a client certificate needs both")
    return replace(base, client_cert=cert, client_key=key, authorization=_authorization(user))


def _authorization(user: Entry) -> Authorization:
    path, token, name = user.file("tokenFile"), user.text("token"), user.text("username")
    if path:
        return TokenFile(path, user.source, f"{user.label}.tokenFile")
    if token:
        return Fixed.bearer(token)
    return Fixed.basic(name, user.text("password") or "") if name else Fixed(None)


def _from_library(
    base: Connection, user: Entry, context: str | None, original: str | Mapping[str, Any]
) -> Connection:
    kind = "exec" if "exec" in user.values else "auth-provider"
    try:
        from kubernetes import client, config
    except ImportError:
        problem = "needs the Python library 'kubernetes', or use a token, tokenFile or client certificate"
        raise user.bad(kind, problem) from None
    settings = client.Configuration()
    load: Any = config.load_kube_config if isinstance(original, str) else config.load_kube_config_from_dict
    try:
        load(original, context=context, client_configuration=settings)
    except Exception as problem:
        raise user.bad(kind, f"gave no credentials: {type(problem).__name__}") from None
    made = Entry(user.source, user.label, os.curdir, {"cert": settings.cert_file, "key": settings.key_file})
    authorization = LibraryAuthorization(settings)
    if authorization() is None and not settings.cert_file:
        # The library writes the cause to its log and goes on without credentials.
        raise user.bad(kind, "gave no credentials")
    return replace(
        base, authorization=authorization, client_cert=made.pem("cert"), client_key=made.pem("key")
    )


def _from_service_account(env: Mapping[str, str], folder: str) -> Connection:
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        problem = "none was given, KUBECONFIG is unset, ~/.kube/config is absent and this is not a pod"
        raise BadKubeconfig("connection", "kubeconfig", problem)
    files = Entry("service account", folder, folder, {"ca.crt": "ca.crt"})
    address = f"[{host}]" if ":" in host else host
    return Connection(
        server=f"https://{address}:{port}",
        ca=files.pem("ca.crt"),
        authorization=TokenFile(os.path.join(folder, "token"), "service account", "token"),
        namespace=_namespace_of(folder),
        source="service account",
    )


def _namespace_of(folder: str) -> str:
    try:
        with open(os.path.join(folder, "namespace"), encoding="ascii") as handle:
            return handle.read().strip() or "default"
    except OSError:
        return "default"


def _server_url(entry: Entry, name: str) -> str:
    text = entry.text(name)
    if text is None:
        raise entry.bad(name, "is missing")
    url = text if "://" in text else f"https://{text}"
    parts = urlsplit(url)
    try:
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid or parts.username or parts.query:
        raise entry.bad(name, f"must be https://host[:port][/path], not {text!r}")
    return url.rstrip("/")
