# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every form of a kubeconfig that kubectl accepts is accepted, and each bad one is named by file and field."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import BadKubeconfig

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n"
SECRET = "s3cr3t-t0ken"


def document(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "ctx",
        "clusters": [{"name": "c", "cluster": {"server": "https://api.test:6443"} | (cluster or {})}],
        "users": [{"name": "u", "user": {"token": SECRET} if user is None else user}],
        "contexts": [{"name": "ctx", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
    }


def write(folder: Path, content: object, name: str = "config") -> str:
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return str(path)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def load(path: str, context: str | None = None) -> Connection:
    return Connection.load(path, context, environ={})


def test_token_user_and_context_namespace(tmp_path: Path) -> None:
    connection = load(write(tmp_path, document()))
    assert connection.server == "https://api.test:6443"
    assert connection.authorization() == f"Bearer {SECRET}"
    assert connection.namespace == "team"
    assert connection.verify
    assert connection.ca is None


def test_json_is_accepted(tmp_path: Path) -> None:
    assert load(write(tmp_path, json.dumps(document()))).server == "https://api.test:6443"


def test_a_mapping_is_accepted() -> None:
    assert Connection.load(document(), environ={}).authorization() == f"Bearer {SECRET}"


def test_certificates_as_data(tmp_path: Path) -> None:
    user = {"client-certificate-data": encoded(PEM), "client-key-data": encoded(KEY)}
    path = write(tmp_path, document({"certificate-authority-data": encoded(PEM)}, user))
    connection = load(path)
    assert (connection.ca, connection.client_cert, connection.client_key) == (PEM, PEM, KEY)
    assert connection.authorization() is None


def test_certificates_as_files_relative_to_the_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, PEM, "ca.pem")
    write(tmp_path, KEY, "key.pem")
    user = {"client-certificate": "ca.pem", "client-key": str(tmp_path / "key.pem")}
    path = write(tmp_path, document({"certificate-authority": "ca.pem"}, user))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    connection = load(path)
    assert (connection.ca, connection.client_cert, connection.client_key) == (PEM, PEM, KEY)


def test_data_wins_over_the_file(tmp_path: Path) -> None:
    cluster = {"certificate-authority": "absent.pem", "certificate-authority-data": encoded(PEM)}
    assert load(write(tmp_path, document(cluster))).ca == PEM


def test_token_file_wins_over_token(tmp_path: Path) -> None:
    write(tmp_path, "rotating\n", "token")
    path = write(tmp_path, document(user={"tokenFile": "token", "token": "static"}))
    assert load(path).authorization() == "Bearer rotating"


def test_basic_authentication(tmp_path: Path) -> None:
    path = write(tmp_path, document(user={"username": "ann", "password": "pw"}))
    assert load(path).authorization() == f"Basic {encoded('ann:pw')}"


def test_user_without_credentials(tmp_path: Path) -> None:
    assert load(write(tmp_path, document(user={}))).authorization() is None


def test_cluster_options(tmp_path: Path) -> None:
    cluster = {"insecure-skip-tls-verify": True, "tls-server-name": "inside", "proxy-url": "http://p:3128"}
    connection = load(write(tmp_path, document(cluster)))
    assert not connection.verify
    assert connection.tls_server_name == "inside"
    assert connection.proxy_url == "http://p:3128"


def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    content = document()
    content["clusters"].append({"name": "c2", "cluster": {"server": "https://second.test"}})
    content["contexts"].append({"name": "other", "context": {"cluster": "c2", "user": "u"}})
    connection = load(write(tmp_path, content), "other")
    assert (connection.server, connection.namespace) == ("https://second.test", "default")


def test_several_files_merge_and_the_first_wins(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    write(tmp_path / "b", "tok-b", "token")
    first = write(tmp_path, document() | {"users": []}, "first")
    content = document(user={"tokenFile": "token"}) | {"current-context": "ignored"}
    content["clusters"][0]["cluster"]["server"] = "https://ignored.test"
    second = write(tmp_path / "b", content, "second")
    connection = Connection.load(environ={"KUBECONFIG": os.pathsep.join([first, "/absent", second])})
    assert connection.server == "https://api.test:6443"
    assert connection.authorization() == "Bearer tok-b"


def test_home_is_used_when_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube", document())
    assert Connection.load(environ={"HOME": str(tmp_path)}).namespace == "team"


def test_an_argument_wins_over_the_variable(tmp_path: Path) -> None:
    path = write(tmp_path, document())
    assert Connection.load(path, environ={"KUBECONFIG": "/absent"}).namespace == "team"


def changed(**parts: Any) -> dict[str, Any]:
    return document() | parts


BAD: list[tuple[str, Any, str, str]] = [
    ("not yaml", f"clusters: [{SECRET}", "", "is not YAML (line "),
    ("not a mapping", "just text", "", "must be a mapping"),
    ("empty", "", "", "must be a mapping"),
    ("no context", changed(**{"current-context": ""}), "current-context", "is not set"),
    ("unknown context", changed(**{"current-context": "x"}), "current-context", "(ctx)"),
    ("unknown cluster", changed(clusters=[]), "contexts[ctx].context.cluster", "(none)"),
    ("unknown user", changed(users=[]), "contexts[ctx].context.user", "'u' is not one of the users"),
    ("no cluster", changed(contexts=[{"name": "ctx", "context": {}}]), "contexts[ctx].context.cluster", "missing"),
    ("clusters no list", changed(clusters={"name": "c"}), "clusters", "must be a list"),
    ("nameless", changed(users=[{"user": {}}]), "users[0].name", "is missing"),
    ("cluster no mapping", changed(clusters=[{"name": "c", "cluster": "x"}]), "clusters[c].cluster", "mapping"),
    ("no server", changed(clusters=[{"name": "c"}]), "clusters[c].cluster.server", "is missing"),
    ("server scheme", document({"server": "ftp://x"}), "clusters[c].cluster.server", "must be https://"),
    ("server port", document({"server": "https://x:port"}), "clusters[c].cluster.server", "must be https://"),
    ("server number", document({"server": 6443}), "clusters[c].cluster.server", "must be a string, not int"),
    (
        "flag",
        document({"insecure-skip-tls-verify": "yes please"}),
        "clusters[c].cluster.insecure-skip-tls-verify",
        "must be true or false",
    ),
    (
        "ca not base64",
        document({"certificate-authority-data": "%%%"}),
        "clusters[c].cluster.certificate-authority-data",
        "base64",
    ),
    (
        "ca not pem",
        document({"certificate-authority-data": encoded(SECRET)}),
        "clusters[c].cluster.certificate-authority-data",
        "no PEM block",
    ),
    (
        "ca absent",
        document({"certificate-authority": "absent.pem"}),
        "clusters[c].cluster.certificate-authority",
        "absent.pem",
    ),
    ("key missing", document(user={"client-certificate-data": encoded(PEM)}), "users[u].user.client-key", "both"),
    ("cert missing", document(user={"client-key-data": encoded(KEY)}), "users[u].user.client-certificate", "both"),
    ("token file absent", document(user={"tokenFile": "absent"}), "users[u].user.tokenFile", "cannot read"),
    ("token list", document(user={"token": [SECRET]}), "users[u].user.token", "must be a string, not list"),
]


@pytest.mark.parametrize(("content", "field", "problem"), [case[1:] for case in BAD], ids=[c[0] for c in BAD])
def test_bad_forms_name_file_and_field(tmp_path: Path, content: object, field: str, problem: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(BadKubeconfig) as raised:
        load(path)
    assert raised.value.field == field
    assert raised.value.message.startswith(f"{path}: {field}")
    assert problem in raised.value.message
    assert SECRET not in raised.value.message


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "absent")
    for arguments, environ in (((path,), {}), ((), {"KUBECONFIG": path})):
        with pytest.raises(BadKubeconfig, match=rf"^{path}: cannot be read: No such file"):
            Connection.load(*arguments, environ=environ)


def test_an_empty_token_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path, " \n", "token")
    with pytest.raises(BadKubeconfig, match="the file is empty"):
        load(write(tmp_path, document(user={"tokenFile": "token"})))


def test_exec_user_is_run_by_the_library(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-plugin"},
    }
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n", encoding="ascii")
    plugin.chmod(0o700)
    user = {"exec": {"apiVersion": answer["apiVersion"], "command": str(plugin), "interactiveMode": "Never"}}
    assert load(write(tmp_path, document(user=user))).authorization() == "Bearer from-plugin"


def test_exec_user_that_fails_is_named(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(tmp_path / "absent")}}
    with pytest.raises(BadKubeconfig, match=r"users\[u\].user.exec: gave no credentials"):
        load(write(tmp_path, document(user=user)))


def test_exec_user_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "kubernetes", None)
    with pytest.raises(BadKubeconfig, match=r"users\[u\].user.auth-provider: needs the Python library"):
        load(write(tmp_path, document(user={"auth-provider": {"name": "oidc"}})))
