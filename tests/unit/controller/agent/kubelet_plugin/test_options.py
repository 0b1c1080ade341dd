# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin's part of the agent's command line."""

from __future__ import annotations

import builtins
import importlib
import typing as t
from pathlib import Path

import google.protobuf
import pytest

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.beside_agent import kubelet_plugin
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.checkpoint import (
    Checkpoint,
    PreparedClaim,
    PreparedDevice,
)
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.devices import DEFAULT_KINDS
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.options import check_plugin_options, shares
from ansible_collections.composable.infra.controller.agent.main import parser
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig
from ansible_collections.composable.infra.tests.unit.controller.agent.fake_operations import Node


def arguments(*more: str) -> t.Any:
    return parser().parse_args(["--node-name", "n", *more])


def test_it_is_off_by_default_and_then_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, *_unused: object) -> object:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    args = arguments()
    check_plugin_options(args)
    assert (args.dra_driver, tuple(args.dra_kinds)) == ("", DEFAULT_KINDS)
    with pytest.raises(BadConfig, match=r"this Python has no grpc\. Install grpcio and protobuf"):
        check_plugin_options(arguments("--dra-driver", "devices.composable.infra"))


def test_agent_without_a_driver_does_not_import_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    works = builtins.__import__

    def without_grpc(name: str, *more: t.Any, **named: t.Any) -> t.Any:
        assert not name.startswith(("grpc", "google")), name
        return works(name, *more, **named)

    node = Node()
    agent = node.boot()
    try:
        monkeypatch.setattr(builtins, "__import__", without_grpc)
        with kubelet_plugin(arguments(), node.api.client, agent) as status:
            assert status() == {}
    finally:
        agent.stop()


def test_label_without_a_driver_is_refused() -> None:
    with pytest.raises(BadConfig, match=r"^--dra-driver-by-label needs --dra-driver"):
        check_plugin_options(arguments("--dra-driver-by-label"))
    check_plugin_options(arguments("--dra-driver-by-label", "--dra-driver", "devices.composable.infra"))


@pytest.mark.parametrize("name", ["Upper.example.com", "a..b", "-a", "a_b", "a/b", "x" * 64])
def test_name_that_no_driver_can_have_is_refused(name: str) -> None:
    with pytest.raises(BadConfig, match=r"--dra-driver: .* is not allowed. It must be a DNS subdomain of at most 63"):
        check_plugin_options(arguments(f"--dra-driver={name}"))


def test_kind_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments("--dra-kinds", "quantum")
    assert "invalid choice: 'quantum'" in capsys.readouterr().err


def test_checkpoint_of_a_later_agent_is_put_aside_and_the_agent_goes_on(tmp_path: Path) -> None:
    args = arguments("--dra-driver", "d.example.com", "--kubelet-folder", str(tmp_path), "--root", str(tmp_path))
    file = tmp_path / "plugins/d.example.com/checkpoint.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"version": 2}')
    node = Node()
    agent = node.boot()
    try:
        with kubelet_plugin(args, node.api.client, agent) as status:
            assert status()["kubelet_plugin"]["prepared"] == {}
            assert file.with_name("checkpoint.json.unusable").read_text() == '{"version": 2}'
    finally:
        node.stop()


def test_releases_of_the_agent_ask_the_checkpoint(tmp_path: Path) -> None:
    args = arguments("--dra-driver", "d.example.com", "--kubelet-folder", str(tmp_path), "--root", str(tmp_path))
    device = PreparedDevice("gpu", "node-0", "gpu-a", "0000:10:00.0", "GPU-a")
    Checkpoint(tmp_path / "plugins/d.example.com/checkpoint.json").put(
        PreparedClaim("uid-c", "default", "c", (device,)))
    node = Node()
    agent = node.boot()
    try:
        with kubelet_plugin(args, node.api.client, agent):
            said = agent.state.own_plugin.holder("GPU-a", "")
    finally:
        agent.stop()
    assert said == "the kubelet has not unprepared the claim default/c on this node"


def test_a_protobuf_that_is_older_than_the_generated_messages_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(google.protobuf, "__version__", "6.33.2")
    with pytest.raises(BadConfig, match=r"protobuf 6\.33\.2\. Install 7\.35\.1 or later in the image"):
        check_plugin_options(arguments("--dra-driver", "devices.composable.infra"))


def test_shares_are_read_and_need_a_driver() -> None:
    given = ["nvidia=memory:80Gi:10Gi", "H200=memory:141Gi:1Gi"]
    args = arguments("--dra-driver", "d.example.com", "--dra-shares", *given)
    check_plugin_options(args)
    assert [share.devices for share in shares(args)] == ["nvidia", "H200"]
    with pytest.raises(BadConfig, match=r"^--dra-shares needs --dra-driver"):
        check_plugin_options(arguments("--dra-shares", "nvidia=memory:80Gi:10Gi"))
    with pytest.raises(BadConfig, match=r"^--dra-shares: 'nvidia' is not allowed. It must be DEVICES=CAPACITY"):
        check_plugin_options(arguments("--dra-driver", "d.example.com", "--dra-shares", "nvidia"))
