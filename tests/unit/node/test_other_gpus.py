# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs of AMD and Intel on a made-up node: bound, left to the vendor's plugin, proven idle by their DRM files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node.bring_up import bring_up
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence, NodeTrouble
from ansible_collections.composable.infra.plugins.module_utils.node.release import release
from ansible_collections.composable.infra.tests.unit.node.fake_node import QUICK, A, Card, FakeNode, Notes, steps
from ansible_collections.composable.infra.tests.unit.node.made.kernel_files import drm, process, wanted

GPUS = [("0x1002", "0x038000", "amdgpu"), ("0x1002", "0x120000", "amdgpu"), ("0x8086", "0x038000", "xe")]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """A node with the drivers."""
    made = FakeNode(tmp_path, monkeypatch)
    for driver in ("amdgpu", "xe"):
        (made.root / "sys/bus/pci/drivers" / driver).mkdir()
    return made


@pytest.mark.parametrize(("vendor", "pci_class", "driver"), GPUS)
def test_it_is_bound_and_left_to_the_plugin(node: FakeNode, vendor: str, pci_class: str, driver: str) -> None:
    node.come(Card(A, "", {"vendor": vendor}, pci_class), driver if driver == "xe" else None)
    found = bring_up(node.host, wanted(""), QUICK, Notes())
    assert (found.phase, steps(found), found.address) == ("Preparing", ["OnBus", "Bound", "Touched"], A)
    assert str((node.entry(A) / "driver").readlink()).endswith(driver)


@pytest.mark.parametrize(("vendor", "pci_class", "driver"), GPUS)
def test_one_that_is_open_stays_and_an_idle_one_leaves(
        node: FakeNode, vendor: str, pci_class: str, driver: str) -> None:
    node.come(Card(A, "", {"vendor": vendor}, pci_class), driver)
    drm(node.entry(A), "renderD128")
    process(node.root, 42, "python", "/dev/dri/renderD128")
    ready = Evidence("Ready", "cdi-1", address=A).with_step("Touched", 1.0)
    with pytest.raises(NodeTrouble, match=r"pid 42 \(python\)"):
        release(node.host, ready, QUICK, Notes(), lambda: "")
    node.let_go()

    def unmade(what: str) -> None:
        if what.endswith("/remove 1"):
            shutil.rmtree(node.entry(A) / "drm")

    node.before = unmade
    assert release(node.host, ready, QUICK, Notes(), lambda: "").phase == "Removed"
    assert not node.entry(A).exists()
