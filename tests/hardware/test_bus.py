# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPU taken away and brought back by the product's own steps: only with DESTRUCTIVE=1, and while it is idle."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import bus, pci
from ansible_collections.composable.infra.plugins.module_utils.node.bring_up import bring_up
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    OPEN_ON_NODE,
    REMOVED,
    TOUCHED,
    Evidence,
    NodeTrouble,
)
from ansible_collections.composable.infra.plugins.module_utils.node.holders import Holders
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host, Undo
from ansible_collections.composable.infra.plugins.module_utils.node.kernel_log import KernelLog, faults
from ansible_collections.composable.infra.plugins.module_utils.node.options import Options
from ansible_collections.composable.infra.plugins.module_utils.node.release import release
from ansible_collections.composable.infra.plugins.module_utils.node.search import Wanted
from ansible_collections.composable.infra.plugins.module_utils.node.vendors import NVIDIA
from ansible_collections.composable.infra.tests.hardware.node import (
    DEVICE,
    OPTIONS,
    ROOT,
    NotUsable,
    computing,
    on_host,
)

NOWHERE = "ffff:ff:1f.7"


def let_go(host: Host, evidence: Evidence) -> Evidence:
    """Release the GPU as the node agent does, for a claim that is gone."""
    return release(host, evidence, OPTIONS, lambda noted: None, lambda: "")


def test_gpu_in_use_stays(host: Host, evidence: Evidence, expendable: pci.PciDevice) -> None:
    """A release while a program computes is refused, and the program goes on."""
    try:
        with computing(*on_host(expendable.uuid or "")) as program:
            with pytest.raises(NodeTrouble) as caught:
                let_go(host, evidence)
            assert caught.value.reason == OPEN_ON_NODE
            assert program.poll() is None
    except NotUsable as error:
        pytest.skip(str(error))


def test_unbinds_and_binds(host: Host, expendable: pci.PciDevice) -> None:
    persistence = Undo()
    Holders(host, expendable, NVIDIA, OPTIONS).pause(persistence)
    assert bus.unbind(ROOT, expendable, OPTIONS.patience)
    assert pci.need(ROOT, expendable.address).driver is None
    assert bus.bind(ROOT, expendable.address, NVIDIA.driver, OPTIONS.patience)
    assert persistence.all() == []


def test_wrong_unbind_is_refused(expendable: pci.PciDevice) -> None:
    """The kernel answers with an error, for a device that is not there."""
    with pytest.raises(bus.NotDone):
        bus.write(ROOT / "sys/bus/pci/drivers" / NVIDIA.driver / "unbind", NOWHERE, OPTIONS.patience)


def test_leaves_and_comes_back(host: Host, evidence: Evidence, expendable: pci.PciDevice) -> None:
    """Drained, off the bus, found again by a rescan of its port, bound and touched, without a fault in the log."""
    bridge = (ROOT / "sys/bus/pci/devices" / expendable.address).resolve().parent
    options = Options(rescan="port", ports=(bridge.name,)) if (bridge / "rescan").exists() else Options(rescan="bus")
    with KernelLog(ROOT) as log:
        gone = let_go(host, evidence)
        assert gone.phase == REMOVED
        assert pci.find(ROOT, expendable.address) is None
        back = bring_up(host, Wanted(DEVICE, uuid=evidence.uuid), replace(options, event_patience=0.2),
                        lambda noted: None)
        assert back.has(TOUCHED)
        assert back.uuid == evidence.uuid
        assert faults(log.new_lines(), back.address) == []
