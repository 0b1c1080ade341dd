# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments win over files, a pod finds its service account, and no secret shows in a connection's text."""

from __future__ import annotations

import re
import ssl
import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.credentials import TokenFile
from ansible_collections.composable.infra.plugins.module_utils.kube.client.options import ConnectionOptions
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import BadKubeconfig

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    for name, text in (("token", "pod-token\n"), ("ca.crt", PEM), ("namespace", "composable\n")):
        (tmp_path / name).write_text(text, encoding="ascii")
    return tmp_path


def in_pod(account: Path, environ: dict[str, str]) -> Connection:
    return Connection.load(environ={"HOME": "/nowhere"} | environ, service_account=str(account))


def test_service_account(account: Path) -> None:
    connection = in_pod(account, IN_POD)
    assert connection.server == "https://10.0.0.1:6443"
    assert connection.authorization() == "Bearer pod-token"
    assert (connection.ca, connection.namespace) == (PEM, "composable")


def test_service_account_over_ipv6(account: Path) -> None:
    assert in_pod(account, {"KUBERNETES_SERVICE_HOST": "fd00::1"}).server == "https://[fd00::1]:443"


def test_service_account_without_namespace_file(account: Path) -> None:
    (account / "namespace").unlink()
    assert in_pod(account, IN_POD).namespace == "default"


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_incomplete_service_account_is_named(account: Path, name: str) -> None:
    (account / name).unlink()
    with pytest.raises(BadKubeconfig, match=rf"^service account: .*{name}"):
        in_pod(account, IN_POD)


def test_nothing_to_connect_with(account: Path) -> None:
    with pytest.raises(BadKubeconfig, match="KUBECONFIG is unset"):
        in_pod(account, {})


def test_host_and_token_as_arguments() -> None:
    connection = Connection.load(given=ConnectionOptions(host="api.test:6443", token="tok\n", ca_data=PEM), environ={})
    assert connection.server == "https://api.test:6443"
    assert connection.authorization() == "Bearer tok"
    assert connection.ca == PEM


def test_arguments_win_over_the_kubeconfig() -> None:
    content = {
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": "https://a.test"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
    }
    given = ConnectionOptions(host="https://b.test/", validate_certs=False)
    connection = Connection.load(content, given=given, environ={})
    assert connection.server == "https://b.test"
    assert not connection.verify


KUBECONFIG = {
    "current-context": "x",
    "clusters": [{"name": "c", "cluster": {"server": "https://a.test", "insecure-skip-tls-verify": True}}],
    "users": [{"name": "u", "user": {"token": "of-the-file"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
}


@pytest.mark.parametrize("login", [{"token": "t"}, {"username": "u", "password": "p"}])
def test_host_and_login_replace_the_kubeconfig(login: dict[str, t.Any]) -> None:
    """As kubernetes.core has it: nothing of another cluster is mixed in."""
    connection = Connection.load(KUBECONFIG, given=ConnectionOptions(host="b.test", **login), environ={})
    assert (connection.server, connection.verify) == ("https://b.test", True)
    assert "of-the-file" not in str(connection.authorization())


def test_user_and_password() -> None:
    given = ConnectionOptions(host="b.test", username="u", password="p")
    assert Connection.load(given=given, environ={}).authorization() == "Basic dTpw"
    assert "Bearer" in str(Connection.load(given=ConnectionOptions(host="b.test", token="t", username="u"),
                                           environ={}).authorization())


def test_variables_of_kubernetes_core(tmp_path: Path) -> None:
    """Those that AAP's credential for a bearer token sets are among them."""
    ca = tmp_path / "ca.pem"
    ca.write_text(PEM, encoding="ascii")
    found = ConnectionOptions.of({}, {
        "K8S_AUTH_HOST": "https://b.test", "K8S_AUTH_API_KEY": "secret", "K8S_AUTH_VERIFY_SSL": "True",
        "K8S_AUTH_SSL_CA_CERT": str(ca), "K8S_AUTH_PROXY": " ", "K8S_AUTH_USERNAME": ""})
    connection = Connection.load(given=found, environ={})
    assert (connection.server, connection.ca, connection.verify) == ("https://b.test", PEM, True)
    assert connection.authorization() == "Bearer secret"
    assert (found.proxy, found.username, found.complete) == (None, None, True)


@pytest.mark.parametrize(("text", "meant"), [("False", False), ("0", False), ("yes", True), ("", None)])
def test_variable_for_the_check_of_certificates(text: str, meant: bool | None) -> None:
    assert ConnectionOptions.of({}, {"K8S_AUTH_VERIFY_SSL": text}).validate_certs is meant


def test_bad_variable_is_named() -> None:
    with pytest.raises(BadKubeconfig, match="environment: K8S_AUTH_VERIFY_SSL: must be true or false, not 'maybe'"):
        ConnectionOptions.of({}, {"K8S_AUTH_VERIFY_SSL": "Maybe"})


@pytest.mark.parametrize(("given", "said"), [
    ({"verify_ssl": "perhaps"}, "arguments: validate_certs: must be true or false, not 'perhaps'"),
    ({"host": 7}, "arguments: host: must be text, not int"),
    ({"impersonate_groups": {"a": 1}}, "arguments: impersonate_groups: must be a list, not dict"),
])
def test_bad_option_is_named(given: dict[str, t.Any], said: str) -> None:
    with pytest.raises(BadKubeconfig, match=f"^{re.escape(said)}$"):
        ConnectionOptions.of(given, {})


def test_options_win_over_variables_and_blank_ones_say_nothing() -> None:
    environ = {"K8S_AUTH_HOST": "https://b.test", "K8S_AUTH_PROXY": "http://p.test",
               "K8S_AUTH_IMPERSONATE_GROUPS": "a,"}
    found = ConnectionOptions.of({"host": "https://a.test", "proxy": " ", "impersonate_groups": []}, environ)
    assert (found.host, found.proxy, found.impersonate_groups) == ("https://a.test", "http://p.test", ["a"])


@pytest.mark.parametrize("content", ["apiVersion: v1\nusers: [{user: {token: s3cr3t}}]", '{"token": "s3cr3t"}'])
def test_the_text_of_a_kubeconfig_is_refused_without_showing_it(content: str) -> None:
    with pytest.raises(BadKubeconfig, match="must be a path or a mapping, not the text of a kubeconfig") as raised:
        Connection.load(content, environ={})
    assert "s3cr3t" not in str(raised.value)


def test_what_is_neither_path_nor_mapping_is_named() -> None:
    wrong: t.Any = ["/a/path"]
    with pytest.raises(BadKubeconfig, match="arguments: kubeconfig: must be a path or a mapping, not list"):
        Connection.load(wrong, environ={})


@pytest.mark.parametrize("host", ["https://", "https://user:pw@api.test", "https://api.test?x=1", "gopher://x"])
def test_bad_host_is_named(host: str) -> None:
    with pytest.raises(BadKubeconfig, match=r"^arguments: connection.host: must be https://"):
        Connection.load(given=ConnectionOptions(host=host), environ={})


def test_absent_ca_file_is_named() -> None:
    with pytest.raises(BadKubeconfig, match=r"connection.ca_file: cannot read /absent"):
        Connection.load(given=ConnectionOptions(host="api.test", ca_file="/absent"), environ={})


def test_text_shows_no_secret() -> None:
    connection = Connection("https://api.test", ca=PEM, client_key="KEY", proxy_url="http://u:pw@p")
    given = ConnectionOptions(host="api.test", token="hidden", proxy="http://u:pw@p")
    assert repr(Connection.load(given=given, environ={})).count("hidden") == 0
    assert not {"hidden", "pw"} & set(re.split(r"\W+", repr(given)))
    assert not {"KEY", "u:pw", "MIIB"} & set(repr(connection).replace("'", " ").split())
    assert "pw" not in repr(connection)


def test_plain_http_has_no_tls_context() -> None:
    assert Connection("http://localhost:8001").ssl_context() is None


def test_unusable_ca_is_named() -> None:
    with pytest.raises(BadKubeconfig, match=r"^arguments: certificate-authority: is not a certificate"):
        Connection("https://api.test", ca=PEM).ssl_context()


def test_unusable_client_certificate_is_named() -> None:
    with pytest.raises(BadKubeconfig, match=r"^arguments: client-certificate: does not form a usable pair"):
        Connection("https://api.test", client_cert=PEM, client_key=PEM).ssl_context()


def test_pod_needs_no_place_to_write_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_unused: object, **_more: object) -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", none)
    assert Connection("https://api.test", verify=False).ssl_context() is not None


def test_verification_follows_the_setting() -> None:
    strict = Connection("https://api.test").ssl_context()
    lax = Connection("https://api.test", verify=False).ssl_context()
    assert strict is not None
    assert lax is not None
    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (lax.verify_mode, lax.check_hostname) == (ssl.CERT_NONE, False)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", Clock()
    path.write_text("one", encoding="ascii")
    token = TokenFile(str(path), "s", "f", clock)
    path.write_text("two", encoding="ascii")
    clock.now = 59
    assert token() == "Bearer one"
    clock.now = 60
    assert token() == "Bearer two"


def test_token_file_is_read_again_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one", encoding="ascii")
    token = TokenFile(str(path), "s", "f", Clock())
    path.write_text("two", encoding="ascii")
    assert (token(), token(refresh=True)) == ("Bearer one", "Bearer two")


def test_a_token_file_that_vanishes_keeps_the_last_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one", encoding="ascii")
    token = TokenFile(str(path), "s", "f", Clock())
    path.unlink()
    assert token(refresh=True) == "Bearer one"
