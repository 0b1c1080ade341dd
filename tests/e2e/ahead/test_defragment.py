# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A claim for more devices than are free: the proposal is looked at, refused when stale, released, and the pod runs.

The module refuses, and the playbook proposes and releases.
"""

from __future__ import annotations

import typing as t
from functools import partial
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.modules import run_tasks
from ansible_collections.composable.infra.tests.e2e.support.played import Played, play, well
from ansible_collections.composable.infra.tests.e2e.support.support import (
    attached,
    await_served,
    changes_asked,
    delete_all,
    mark,
    wait_for,
)

pytestmark = pytest.mark.e2e
# What is idle stays for long, and who waits is not let go.
STAGE = {"devices": {A100: 3}, "nodes": 2, "hold": 3600.0, "handover": "gated",
         "extra": {"unserved": "wait", "max_devices_per_node": 3}}
CLAIM = {"claim": "default/large"}


def asked(stage: Stage, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    """What the module returns to an administrator; the accounts of the controllers may not release anything."""
    given = {"kubeconfig": str(stage.lab.kubeconfig), **CLAIM, **options}
    (found,) = run_tasks(stage, [{"composable.infra.fabric_defragment": given, "check_mode": check}])
    return found


def run(stage: Stage, folder: Path, proposal: str = "") -> Played:
    """Run the playbook, as docs/guides/defragment.md does. Without a proposal it shows one."""
    given = {"config_path": str(stage.config_path), "kubeconfig": str(stage.lab.kubeconfig),
             "defragment_claim": CLAIM["claim"], "defragment_proposal": proposal}
    return well(play(folder, "composable.infra.defragment", {f"composable_{key}": value
                                                             for key, value in given.items()}))


def test_an_idle_device_of_another_node_is_moved_for_a_claim_that_waits(
    stage: Stage, timeline: Timeline, open_process: OpenProcess, tmp_path: Path
) -> None:
    controller = open_process(front_doors.controller, stage)
    stage.pod("small", A100, 1, "node-1")
    await_served(stage, timeline, "small")
    delete_all(stage)
    (idle,) = attached(stage)
    stage.pod("large", A100, 3, "node-0")
    wait_for("the idle device can be moved", partial(_proposes_a_move, stage))
    since, proposed = mark(stage), asked(stage, check=True)
    proposal = proposed["proposal"]
    assert (proposal["fits"], proposal["target"]) == (True, "node-0")
    assert [(move["node"], len(move["devices"])) for move in proposal["moves"]] == [("node-1", 1)]
    assert proposed["changed"]
    shown = run(stage, tmp_path)
    assert f"proposal: {proposal['id']}" in shown.result("Report what would be moved")["msg"]
    assert (shown.changed, shown.result("Move the devices")["skipped"]) == ([], True)
    assert not changes_asked(stage, since), "check mode changes nothing, nor the playbook without a proposal"
    refused = asked(stage, proposal="000000000000")
    assert f"It is now {proposal['id']}" in refused["msg"]
    assert idle in attached(stage)
    released = run(stage, tmp_path, proposal["id"])
    assert released.changed == ["Move the devices"]
    await_served(stage, timeline, "large", deployed=controller)
    assert timeline.claims["large"].node == "node-0"
    assert idle in timeline.claims["large"].devices
    late = asked(stage, proposal=proposal["id"])
    assert late["msg"] == "claim: 'default/large' is not usable: the claim already has its devices"


def _proposes_a_move(stage: Stage) -> bool:
    found = asked(stage, check=True)
    assert "proposal" in found, found.get("msg")
    return bool(found["proposal"]["moves"])
