# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims and nodes that do not fit the configuration: each is failed with the reason, and the others are served."""

from __future__ import annotations

import copy
import typing as t
from functools import partial

from ansible_collections.composable.infra.lab.control_plane.nodes import node_object
from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, H100, Stage, device_name
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES, SLICES
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.cluster_state import own_events
from ansible_collections.composable.infra.tests.e2e.support.launch import write_config
from ansible_collections.composable.infra.tests.e2e.support.modules import run_tasks
from ansible_collections.composable.infra.tests.e2e.support.support import (
    PATIENCE,
    Json,
    allocated,
    changes_asked,
    delete_all,
    mark,
    pools,
    run_pods,
    wait_for,
)

STAGE: dict[str, t.Any] = {"nodes": 1, "devices": {A100: 2, H100: 1}}


def failure(stage: Stage, claim: str) -> str:
    """What an Event on the claim says about its failure."""
    return next((e["message"] for e in own_events(stage) if e["reason"] == "AttachFailed"
                 and (e["involvedObject"]["kind"], e["involvedObject"]["name"]) == ("ResourceClaim", claim)), "")


def test_pool_of_a_model_that_is_not_in_device_info(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    """H100 is published by a controller that knows it; the one that runs then does not."""
    first = front_doors.controller(stage)
    wait_for("both pools are published", lambda: len(pools(stage)) == 2)
    assert first.stop() == 0
    config = stage.config()
    shipped = stage.config_path
    stage.config_path = write_config(stage, "one-model", {**config, "device_info": config["device_info"][:1]})
    try:
        since = mark(stage)
        controller = open_process(front_doors.controller, stage)
        stage.pod("unknown", H100)
        run_pods(stage, timeline, lambda: None, {"known": (A100, 1)})
        said = wait_for("the claim is failed", lambda: failure(stage, "unknown"))
        assert said == f"pool {device_name(H100)}-fabric1 belongs to no model of device_info"
        assert "FabricDeviceFailed default/unknown: " + said in controller.text()
        assert [e["model"] for e in changes_asked(stage, since)] == [A100]
        assert "Traceback" not in controller.text()
    finally:
        stage.config_path = shipped
    delete_all(stage)


def add_node(stage: Stage, name: str, provider: str) -> None:
    """A node with the labels that open pools, put there by a hand that did not know better."""
    body = node_object(name, stage.client.list(NODES).items[0]["status"]["nodeInfo"]["kubeletVersion"])
    body["spec"] = {"providerID": provider} if provider else {}
    body["metadata"]["labels"] |= {"cohdi.io/fabric": "1", f"cohdi.io/{device_name(A100)}": "true"}
    stage.client.create(NODES, body)


def test_nodes_without_a_machine(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    run_tasks(stage, [{"composable.infra.scale": {"timeout": 60}}])
    strays = {"bare": "", "other": "aws:///zone/i-1", "stale": f"fsas-cdi://{machine_uuid('nobody')}"}
    for name, provider in strays.items():
        add_node(stage, name, provider)
    pool = next(s for s in stage.client.list(SLICES).items if s["spec"]["pool"]["name"].startswith(device_name(A100)))
    make_room(stage, pool, len(strays))
    for name in strays:
        stage.pod(f"on-{name}", A100, 1, name)
    placed = [f"on-{name}" for name in strays]
    assert timeline.wait(lambda: allocated(timeline, *placed), PATIENCE)
    since = mark(stage)
    controller = open_process(front_doors.controller, stage)
    said = {name: wait_for(f"{name} is failed", partial(failure, stage, f"on-{name}")) for name in strays}
    assert said["bare"] == ("no device can be attached to node bare: its providerID is 'empty', "
                            "not fsas-cdi://<machine uuid>")
    assert "its providerID is 'aws:///zone/i-1'" in said["other"]
    assert f"the CDI Manager knows no machine {machine_uuid('nobody')}" in said["stale"]
    wait_for("the nodes are closed to pools", lambda: not any(_open(n) for n in stage.client.list(NODES).items))
    run_pods(stage, timeline, lambda: None, {"well": (A100, 1)}, {"well": "node-0"})
    assert [e["machine"] for e in changes_asked(stage, since)] == [machine_uuid("node-0")]
    assert "Traceback" not in controller.text()


def make_room(stage: Stage, pool: Json, count: int) -> None:
    """Have a pool promise more than there is, so that every stray node can be allocated one."""
    devices = []
    for number in range(count):
        device = copy.deepcopy(pool["spec"]["devices"][0])
        devices.append({**device, "name": f"extra-{number}"})
    spec = copy.deepcopy(pool["spec"])
    spec["pool"]["generation"] += 1
    spec["devices"] += devices
    stage.client.replace(SLICES, pool["metadata"]["name"], {**pool, "spec": spec})


def _open(node: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    return node["metadata"]["name"] != "node-0" and any(key.startswith("cohdi.io/") for key in labels)
