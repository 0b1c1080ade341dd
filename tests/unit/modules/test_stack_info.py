# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""stack_info returns what the reader finds, closes its connections, and explains a cluster that does not answer."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils import cluster_module
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Unreachable
from ansible_collections.composable.infra.plugins.modules import stack_info

RunModule = Callable[..., dict[str, t.Any]]


class FakeClient:
    """An API server of one version that serves nothing else."""

    def __init__(self) -> None:
        self.closed = False

    def raw(self, method: str, path: str) -> dict[str, t.Any]:
        return {"gitVersion": "v1.36.3"} if path == "/version" else {}

    def text(self, path: str) -> str:
        return ""

    def list(self, resource: object, field_selector: str | None = None, label_selector: str | None = None) -> t.Any:
        return type("Found", (), {"items": []})

    def server_time(self) -> float:
        return 0.0

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("check", [False, True])
def test_it_reads_and_closes(run_module: RunModule, monkeypatch: pytest.MonkeyPatch, check: bool) -> None:
    client = FakeClient()
    monkeypatch.setattr(cluster_module, "cluster", lambda params: client)
    found = run_module(stack_info, check=check, kubeconfig="/k")
    assert (found.get("changed", False), found["stack"]["kubernetes"], found["stack"]["problems"]) == (
        False,
        "v1.36.3",
        [],
    )
    assert client.closed


def test_a_cluster_that_does_not_answer_is_one_sentence(run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeClient()

    def nothing(method: str, path: str) -> dict[str, t.Any]:
        raise Unreachable("https://api did not answer")

    monkeypatch.setattr(client, "raw", nothing)
    monkeypatch.setattr(cluster_module, "cluster", lambda params: client)
    found = run_module(stack_info, kubeconfig="/k")
    assert (found["failed"], found["msg"], found["error"]) == (True, "https://api did not answer", "Unreachable")
    assert client.closed
