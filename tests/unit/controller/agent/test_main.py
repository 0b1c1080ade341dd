# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of the node agent."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.controller.agent.main import (
    agent_options,
    host_options,
    main,
    parser,
)
from ansible_collections.composable.infra.controller.program import BAD_INPUT


@pytest.fixture(autouse=True)
def other_logging() -> Iterator[None]:
    """The command line sets up the logger of all; put it back."""
    logger = logging.getLogger("composable.infra")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(("arguments", "words"), [
    ([], "--node-name is not set"),
    (["--node-name", "n", "--patience", "0"], "--patience: 0 is not allowed. It must be from 0.01 to 3600 seconds"),
    (["--node-name", "n", "--kube-api-qps", "0.5"], "--kube-api-qps: 0.5 is not allowed. It must be from 1 to 100000"),
    (["--node-name", "n", "--kubeconfig", "/no/such/file"], "/no/such/file")])
def test_one_sentence_for_what_cannot_be_used(root: Path, capsys: pytest.CaptureFixture[str], arguments: list[str],
                                              words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    assert main([*arguments, "--root", str(root)]) == BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_a_root_without_a_bus_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--node-name", "n", "--root", str(tmp_path)]) == BAD_INPUT
    assert f"--root: '{tmp_path}' is not allowed" in capsys.readouterr().err


def test_options_reach_the_parts() -> None:
    args = parser().parse_args([
        "--node-name", "n", "--plugin-namespace", "a", "--plugin-namespace", "b", "--rescan", "bus",
        "--ports", "0000:01:00.0", "0000:02:00.0", "--event-patience", "1",
        "--search-patience", "8", "--patience", "9"])
    host, agent = host_options(args), agent_options(args)
    assert (host.rescan, host.ports) == ("bus", ("0000:01:00.0", "0000:02:00.0"))
    assert (host.event_patience, host.search_patience, host.patience) == (1, 8, 9)
    assert agent.plugin_namespaces == ("a", "b")
    assert (agent.patience.event, agent.patience.whole) == (1, 8)


def test_the_node_is_named_by_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "from-the-environment")
    assert parser().parse_args([]).node_name == "from-the-environment"
