# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks attach and detach with node_operations ssh: they do the nodes' part themselves, and no agent runs.

The nodes' hosts are this machine, so no SSH is spoken; all else is as it is over SSH.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.hardware.node import faults
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.tests.e2e.support import by_hand, node_evidence
from ansible_collections.composable.infra.tests.e2e.support.played import Played, play, well
from ansible_collections.composable.infra.tests.e2e.support.support import (
    assert_served,
    await_served,
    changes_asked,
    delete_all,
    mark,
    states,
)

STAGE: dict[str, t.Any] = {"devices": {A100: 3}, "nodes": 2, "handover": "gated", "hands": "ssh", "attach": 0.5}


@pytest.fixture
def inventory(stage: Stage, tmp_path: Path) -> Path:
    """The group composable_nodes; the hosts have other names than their nodes."""
    hosts = {f"host-of-{node}": {"ansible_connection": "local", "node_name": node,
                                 "node_root": str(stage.lab.node_folder(node))} for node in stage.lab.nodes}
    path = tmp_path / "inventory.json"
    path.write_text(json.dumps({"all": {"children": {"composable_nodes": {"hosts": hosts}}}}), encoding="utf-8")
    return path


def shipped(stage: Stage, inventory: Path, name: str, **given: t.Any) -> Played:
    """Play a shipped playbook on the stage."""
    variables = {"config_path": str(stage.config_path), "kubeconfig": str(stage.lab.kubeconfig), "node_become": False}
    return play(inventory.parent / name, f"composable.infra.{name}", {**variables, **given}, "-i", str(inventory),
                ANSIBLE_ASYNC_DIR=str(inventory.parent / "async"))


def test_claims_are_served_and_their_devices_returned(stage: Stage, timeline: Timeline, inventory: Path) -> None:
    # A device that no event tells of is found by a rescan of its port.
    stage.lab.switch_fault("node-1", faults.NO_EVENT)
    since, wanted = mark(stage), {"two": (A100, 2), "one": (A100, 1)}
    stage.pod("two", A100, 2, "node-0")
    stage.pod("one", A100, 1, "node-1")
    well(shipped(stage, inventory, "attach"))
    await_served(stage, timeline, *wanted)
    assert_served(stage, timeline.finish(), since, wanted)
    told = [each for node in stage.lab.nodes for each in node_evidence.evidence(stage, node)]
    assert [(each.phase, each.by) for each in told] == [("Ready", "ssh")] * 3
    assert {tuple(step.step for step in each.steps)[:4] for each in told} == {
        ("OnBus", "Bound", "Touched", "PluginRestarted")}
    since = mark(stage)
    delete_all(stage)
    well(shipped(stage, inventory, "detach", detach_nodes=stage.lab.nodes))
    assert states(stage) == ["free"] * 3
    assert sorted(e["method"] for e in changes_asked(stage, since)) == ["DELETE"] * 3
    assert not stage.client.list(COMPOSABLE_RESOURCES).items
    for node in stage.lab.nodes:
        folder = stage.lab.node_folder(node)
        assert by_hand.gpus(folder) == []
        assert "Xid" not in by_hand.kernel_log(folder)


def test_device_that_a_process_has_open_stays(stage: Stage, timeline: Timeline, inventory: Path) -> None:
    stage.pod("one", A100, 1, "node-0")
    well(shipped(stage, inventory, "attach"))
    await_served(stage, timeline, "one")
    folder = stage.lab.node_folder("node-0")
    handle = by_hand.open_device(folder, 0)
    delete_all(stage)
    since = mark(stage)
    refused = shipped(stage, inventory, "detach", detach_nodes=["node-0"], detach_timeout=20)
    assert refused.status != 0
    assert "is open on the node by pid 4711" in refused.output
    assert not changes_asked(stage, since)
    handle.unlink()
    well(shipped(stage, inventory, "detach", detach_nodes=["node-0"]))
    assert states(stage) == ["free"] * 3
    assert "Xid" not in by_hand.kernel_log(folder)
