# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each component alone asks the API server only for what its own ClusterRole grants."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.lab.control_plane.bootstrap import shipped_documents
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    NODES,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import ROLES, EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.preflight import check_cluster
from ansible_collections.composable.infra.tests.unit.planning.builders import rows
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench, kind_of
from ansible_collections.composable.infra.tests.unit.reconcile.conftest import MANAGER
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import Call

VERBS = {"merge_patch": "patch", "strategic_patch": "patch", "apply": "patch", "replace": "update", "dry_run": "create"}
UNMEANT = ("raw", "warm")


def granted(role: str) -> dict[str, set[str]]:
    """Verbs by resource, with subresource, of one ClusterRole; Leases and Events of the recorder aside."""
    found: dict[str, set[str]] = {}
    for item in shipped_documents():
        if item["kind"] == "ClusterRole" and item["metadata"]["name"] == f"composable-infra-{role}":
            for rule in item["rules"]:
                for resource in rule["resources"]:
                    found.setdefault(resource, set()).update(rule["verbs"])
    return found


def refused(role: str, calls: list[Call]) -> set[str]:
    """Calls that the ClusterRole does not allow, each as "verb resource"."""
    rights = granted(role)
    found = set()
    for call in calls:
        resource = call.plural + (f"/{call.subresource}" if call.subresource else "")
        verb = VERBS.get(call.verb, call.verb)
        wanted = {"list", "watch"} if verb == "list" else {verb}
        if call.verb not in UNMEANT and call.plural != "leases" and not wanted <= rights.get(resource, set()):
            found.add(f"{verb} {resource}")
    return found


@pytest.mark.parametrize("handover", ["reschedule", "gated"])
@pytest.mark.parametrize("role", ROLES)
def test_alone_it_asks_for_nothing_that_its_role_does_not_grant(role: str, handover: str) -> None:
    config = EngineConfig.from_dict({"device_info": rows(), "fabric": MANAGER, "scan_interval": 0.1,
                                     "handover": handover})
    bench = Bench()
    for raw in (objects.node(), objects.claim("train", objects.pool_result()), objects.request(), objects.pod(),
                objects.local_slice("GPU-d9")):
        bench.api.put(kind_of(raw), raw)
    check_cluster(bench.api.client, [role])
    engine = ControllerManager(bench.api.client, bench.fabric, config, roles=[role], events=False)
    engine.watch()
    engine.work()
    try:
        bench.wait(engine.watches.synced, "the lists")
        bench.wait(lambda: engine.ready() and engine.queue.idle(), "the work")
    finally:
        engine.stop()
    assert refused(role, bench.api.calls) == set()
    listed = {c.plural for c in bench.api.calls if c.verb == "list"}
    assert listed >= {CLAIMS.plural, NODES.plural, COMPOSABLE_RESOURCES.plural}


@pytest.mark.parametrize("role", ["publisher", "scaler"])
def test_who_is_not_the_operator_does_not_judge_the_hands_of_a_node(role: str, config: EngineConfig) -> None:
    bench = Bench()
    engine = ControllerManager(bench.api.client, bench.fabric, config, roles=[role], events=False)
    assert (engine.state.agents.missing("node-0"), engine.state.agents.give_evidence) == ("", False)
    engine.stop()
