# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_device_info on made-up nodes: what is on the bus, and what counts as idle there."""

from __future__ import annotations

import shutil
import typing as t
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.modules import node_device_info
from ansible_collections.composable.infra.tests.unit.node.fake_node import A, B, C, Card, FakeNode

RunModule = Callable[..., dict[str, t.Any]]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """A node with one GPU that is usable and one without a driver."""
    made = FakeNode(tmp_path, monkeypatch)
    made.ready(A, "GPU-a")
    made.come(Card(B, "GPU-b"))
    return made


def rows(run_module: RunModule, node: FakeNode, **args: t.Any) -> list[dict[str, t.Any]]:
    found = run_module(node_device_info, root=str(node.root), **args)
    assert (found["failed"], found.get("changed", False)) == (False, False)
    return t.cast(list[dict[str, t.Any]], found["devices"])


def test_every_device_with_its_use(run_module: RunModule, node: FakeNode) -> None:
    first, second = rows(run_module, node)
    assert first == {"address": A, "vendor": "10de", "device": "20f1", "pci_class": "030200", "minor": 0,
                     "driver": "nvidia", "numa_node": None, "uuid": "GPU-a", "model": "NVIDIA A100", "idle": True,
                     "users": [], "why": ""}
    assert (second["address"], second["driver"], second["idle"]) == (B, None, True)
    assert node.did == []


def test_check_mode_reads_the_same(run_module: RunModule, node: FakeNode) -> None:
    assert rows(run_module, node) == rows(run_module, node, check=True)


@pytest.mark.parametrize("name", ["GPU-a", A])
def test_one_device_by_uuid_and_by_address(run_module: RunModule, node: FakeNode, name: str) -> None:
    node.hold(0)
    (found,) = rows(run_module, node, device=name)
    assert (found["address"], found["idle"], found["users"]) == (A, False, ["pid 42 (python)"])
    assert found["why"] == f"{A} is open on the node by pid 42 (python). End these processes, or wait until they end"


def test_what_cannot_be_proven_is_not_idle(run_module: RunModule, node: FakeNode) -> None:
    shutil.rmtree(node.root / "proc/1")
    (found,) = rows(run_module, node, device="GPU-a")
    assert (found["idle"], found["users"]) == (False, [])
    assert "process 1 is missing" in found["why"]


def test_memory_is_neither_idle_nor_not(run_module: RunModule, node: FakeNode) -> None:
    """Only the attempt to take it offline tells."""
    entry = node.entry(B)
    (entry / "class").write_text("0x050210\n", encoding="ascii")
    (found,) = rows(run_module, node, device=B)
    assert (found["idle"], found["why"]) == (
        None, "whether a device of cxl-memory is in use shows only when it is taken offline")


def test_unknown_device_is_an_error_that_names_the_others(run_module: RunModule, node: FakeNode) -> None:
    found = run_module(node_device_info, root=str(node.root), device=C)
    assert (found["failed"], found["error"]) == (True, "UnknownDevice")
    assert f"Allowed are {A} (GPU-a), {B}" in found["msg"]


def test_bus_that_cannot_be_read(run_module: RunModule, tmp_path: Path) -> None:
    found = run_module(node_device_info, root=str(tmp_path / "nowhere"))
    assert (found["failed"], found["error"]) == (True, "NotProven")
