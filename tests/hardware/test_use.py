# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A GPU in use: the idle proof against a program that computes, device specs, and a container that computes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import pytest

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.cdi.container_edits import (
    ContainerEdits,
    Edits,
)
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.devices import NodeDevice, offered
from ansible_collections.composable.infra.plugins.module_utils.node import bus, pci
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import COMMAND_FAILED, NodeTrouble
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host, Output
from ansible_collections.composable.infra.plugins.module_utils.node.vendors import NVIDIA
from ansible_collections.composable.infra.tests.hardware.container import Json, bundle
from ansible_collections.composable.infra.tests.hardware.node import ROOT, NotUsable, computing, on_host, refusal

_LET_GO_SECONDS = 30.0


def without_tool(argv: Sequence[str], timeout: float) -> Output:
    """A node that has no nvidia-ctk."""
    raise NodeTrouble(COMMAND_FAILED, f"the node cannot run {argv[0]}: not asked")


def own_edits(devices: Sequence[NodeDevice]) -> Edits:
    """What the agent's own driver writes where there is no nvidia-ctk."""
    return ContainerEdits(Host(ROOT, run=without_tool)).of(devices)


def paths(edits: Json) -> set[str]:
    """The device files in container edits."""
    return {node["path"] for node in edits.get("deviceNodes") or ()}


@pytest.fixture
def devices(gpu: pci.PciDevice) -> list[NodeDevice]:
    """The GPU as the agent's own driver offers it."""
    return [device for device in offered(ROOT, [NVIDIA.name]) if device.address == gpu.address]


@pytest.fixture
def edits(host: Host, devices: list[NodeDevice]) -> Edits:
    """What nvidia-ctk says a container needs for the GPU, as the agent's own driver asks it."""
    found = ContainerEdits(host).of(devices)
    if not found.libraries:
        pytest.skip("nvidia-ctk is missing: install the NVIDIA Container Toolkit")
    return found


def test_program_that_computes_is_seen(host: Host, gpu: pci.PciDevice) -> None:
    """It is a user of the GPU while it computes, and none when it has ended."""
    before = pci.users(ROOT, gpu)
    try:
        with computing(*on_host(gpu.uuid or "")) as program:
            assert [user for user in pci.users(ROOT, gpu) if user.startswith(f"pid {program.pid} ")]
            assert refusal(host, gpu)
    except NotUsable as error:
        pytest.skip(str(error))
    assert bus.until(lambda: pci.users(ROOT, gpu) == before, _LET_GO_SECONDS)


def test_idle_gpu_is_proven_idle(host: Host, gpu: pci.PciDevice) -> None:
    refused = refusal(host, gpu)
    if refused:
        pytest.skip(f"the GPU is not idle: {refused}")


def test_specs_name_the_files_that_nvidia_ctk_names(devices: list[NodeDevice], edits: Edits) -> None:
    """The own driver's spec without the tool has the same device files as the one with it."""
    own = own_edits(devices)
    assert {name: paths(edit) for name, edit in own.devices.items()} == {
        name: paths(edit) for name, edit in edits.devices.items()}
    assert paths(own.common) <= paths(edits.common)


def test_container_computes(gpu: pci.PciDevice, edits: Edits) -> None:
    """runc runs a container with the spec's devices, libraries and hooks, and the idle proof sees its process."""
    if shutil.which("runc") is None:
        pytest.skip("runc is missing: install the package runc")
    before = pci.users(ROOT, gpu)
    with bundle([edits.common, *edits.devices.values()]) as command, computing(command):
        assert [user for user in pci.users(ROOT, gpu) if user not in before]
    assert bus.until(lambda: pci.users(ROOT, gpu) == before, _LET_GO_SECONDS)
