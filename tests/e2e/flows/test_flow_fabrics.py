# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two fabrics: a node can only have devices of its own."""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, device_name
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.support import (
    assert_served,
    attached,
    pools,
    run_pods,
    wait_for,
)

STAGE: dict[str, t.Any] = {"nodes": 4, "fabrics": 2, "devices": {A100: 2}}


def test_pods_get_devices_of_their_nodes_fabric(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    fabric_of = {m["name"]: m["fabric"] for m in stage.spec["machines"]}
    assert sorted(fabric_of.values()) == [1, 1, 2, 2]
    seen: dict[str, set[str]] = {}
    open_process(front_doors.controller, stage)
    name = device_name(A100)
    wait_for("both pools are published", lambda: pools(stage) == {f"{name}-fabric1": 2, f"{name}-fabric2": 2})
    wanted = {f"pod-{node}": (A100, 1) for node in stage.lab.nodes}
    since = run_pods(stage, timeline, lambda: None, wanted, {f"pod-{node}": node for node in stage.lab.nodes})
    assert_served(stage, timeline.finish(), since, wanted)
    for it in timeline.claims.values():
        seen.setdefault(it.node, set()).update(str(attached(stage)[s]["fabric"]) for s in it.devices)
    assert seen == {node: {str(fabric)} for node, fabric in fabric_of.items()}
    wait_for("nothing is left in the pools", lambda: not any(pools(stage).values()))


def test_a_full_fabric_does_not_help_itself_from_the_other(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    """After the first test all devices are used; one of fabric 1 is returned while a pod of fabric 2 waits."""
    open_process(front_doors.controller, stage)
    node = next(m["name"] for m in stage.spec["machines"] if m["fabric"] == 2)
    other = next(m["name"] for m in stage.spec["machines"] if m["fabric"] == 1)
    stage.pod("waits", A100, 1, node)
    stage.delete_pod(f"pod-{other}")
    wait_for("fabric 1 has one again", lambda: pools(stage).get(f"{device_name(A100)}-fabric1") == 1)
    assert not timeline.running("waits")
    stage.delete_pod(f"pod-{node}")
    assert timeline.wait(lambda: timeline.running("waits"), 90)
    assert timeline.claims["waits"].node == node
