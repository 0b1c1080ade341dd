# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the API server and its credentials, from the sources that kubectl and client-go use."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...net.proxy import Proxy, bypassed, proxy_of_environment
from ..errors import BadKubeconfig
from . import tls
from .credentials import Authorization, Fixed, LibraryAuthorization, TokenFile
from .impersonation import Impersonation
from .kubeconfig import Entry, Kubeconfig
from .options import ConnectionOptions

_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, slots=True)
class Connection:
    """Everything that a Client needs. ``ca``, ``client_cert`` and ``client_key`` are PEM text.

    ``namespace``: default namespace of the context or of the service account.
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
    impersonation: Impersonation = field(default_factory=Impersonation)

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
        """Return the connection for the arguments. They override all values that are found
        elsewhere.

        Order of sources: ``given.host``, ``kubeconfig`` (path, several joined by ``os.pathsep``, or
        a mapping) with its ``context``, the variable KUBECONFIG of ``environ``, then
        ~/.kube/config, then the pod's service account (a folder). Raise BadKubeconfig.
        """
        env = os.environ if environ is None else environ
        given = given or ConnectionOptions()
        if given.complete or (given.host and not kubeconfig):
            base = cls(given.server() or "")
        else:
            base = _from_sources(kubeconfig, context, env, service_account)
        changed = base.impersonation.changed(given.impersonate_user, given.impersonate_groups)
        return replace(base, impersonation=changed, **given.changes())

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return one context for all connections, None for plain HTTP. Raise BadKubeconfig for
        unusable PEM.
        """
        if not self.server.startswith("https:"):
            return None
        return tls.context(self.source, self.ca, self.client_cert, self.client_key, self.verify)

    def proxy(self) -> Proxy | None:
        """Return the proxy for the server from ``proxy_url`` or the environment. Raise
        BadKubeconfig.

        ``no_proxy`` applies to both: hosts, domains, addresses and ranges that are reached
        directly.
        """
        if self.no_proxy and bypassed(self.server, self.no_proxy):
            return None
        url = self.proxy_url or proxy_of_environment(self.server)
        try:
            return Proxy.parse(url) if url else None
        except ValueError as problem:
            raise BadKubeconfig(self.source if self.proxy_url else "environment", "proxy-url", str(problem)) from None


def _from_sources(
    kubeconfig: str | Mapping[str, Any] | None,
    context: str | None,
    env: Mapping[str, str],
    service_account: str,
) -> Connection:
    if isinstance(kubeconfig, Mapping):
        return _from_kubeconfig(Kubeconfig([("kubeconfig", os.curdir, kubeconfig)]), context, kubeconfig)
    if kubeconfig:
        _refuse_content(kubeconfig)
        paths = [os.path.expanduser(path) for path in str(kubeconfig).split(os.pathsep) if path]
        return _from_kubeconfig(Kubeconfig.read(paths), context, os.pathsep.join(paths))
    found = _found_files(env)
    if found:
        return _from_kubeconfig(Kubeconfig.read(found), context, os.pathsep.join(found))
    return _from_service_account(env, service_account)


def _refuse_content(kubeconfig: object) -> None:
    """Raise for a value that is not a path. The message hides the value, which may be secret."""
    if not isinstance(kubeconfig, str):
        problem = f"must be a path or a mapping, not {type(kubeconfig).__name__}"
    elif "\n" in kubeconfig or kubeconfig.lstrip().startswith("{"):
        problem = "must be a path or a mapping, not the text of a kubeconfig"
    else:
        return
    raise BadKubeconfig("arguments", "kubeconfig", problem)


def _found_files(env: Mapping[str, str]) -> list[str]:
    named = [os.path.expanduser(path) for path in env.get("KUBECONFIG", "").split(os.pathsep) if path]
    if named:
        # kubectl skips absent files of the list. If all files are absent, the error names them.
        return [path for path in named if os.path.exists(path)] or named
    default = os.path.join(env.get("HOME") or os.path.expanduser("~"), ".kube", "config")
    return [default] if os.path.exists(default) else []


def _from_kubeconfig(config: Kubeconfig, name: str | None, original: str | Mapping[str, Any]) -> Connection:
    context, cluster, user = config.select(name)
    base = Connection(
        server=cluster.url("server"),
        ca=cluster.pem("certificate-authority"),
        verify=not cluster.flag("insecure-skip-tls-verify"),
        tls_server_name=cluster.text("tls-server-name"),
        proxy_url=cluster.text("proxy-url"),
        namespace=context.text("namespace") or "default",
        source=config.sources,
        impersonation=Impersonation.of_user(user),
    )
    if "exec" in user.values or "auth-provider" in user.values:
        return _from_library(base, user, name, original)
    return _with_user(base, user)


def _with_user(base: Connection, user: Entry) -> Connection:
    cert, key = user.pem("client-certificate"), user.pem("client-key")
    if bool(cert) != bool(key):
        missing = "client-key" if cert else "client-certificate"
        raise user.bad(missing, "is missing. A client certificate needs both")
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
        # The library logs the cause and continues without credentials.
        raise user.bad(kind, "gave no credentials")
    return replace(
        base, authorization=authorization, client_cert=made.pem("cert"), client_key=made.pem("key")
    )


def _from_service_account(env: Mapping[str, str], folder: str) -> Connection:
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        problem = "none is set, KUBECONFIG is unset, ~/.kube/config is absent and this is not a pod"
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
