# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server that answers 503 at discovery has no empty lists: nothing is released, removed or begun.

kubernetes.core returns no resources and `api_found: false` then, and does not fail.
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played
from ansible_collections.composable.infra.tests.integration.playbooks.unserved_kinds_support import (
    ADMISSION,
    APPS,
    CRDS,
    CRO,
    DRA,
    NO_CLAIMS,
    Clusters,
    include,
)
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

NODE_WORK: Json = {"ansible.builtin.include_tasks": str(ROOT / "playbooks/tasks/node_work.yml")}
ON_NODES: Json = {"node_hosts_of": {"n1": "localhost"}}
REMOVALS: t.Final[dict[str, tuple[Json, str, str, Json]]] = {
    f"{name} without {sick}{' and its kinds' if absent else ''}": (include(role, tasks), sick, absent, variables)
    for name, role, tasks, sick, absent, variables in [
        ("controllers", "controllers", "absent", CRO, "", {"controllers_remove_crds": True}),
        ("controllers", "controllers", "absent", CRDS, CRO, {"controllers_remove_crds": True}),
        ("controllers", "controllers", "absent", ADMISSION, "", {}),
        ("rivals of controllers", "controllers", "rivals", APPS, "", {}),
        ("gated pods", "controllers", "gated_pods", "v1", "", {}),
        ("cohdi", "cohdi", "absent", CRO, "", {}), ("cohdi", "cohdi", "absent", CRDS, CRO, {}),
        ("rivals of cohdi", "cohdi", "rivals", APPS, "", {}),
        ("uninstall", "uninstall", "attached", CRO, "", NO_CLAIMS),
        ("uninstall", "uninstall", "attached", CRDS, CRO, NO_CLAIMS)]}


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Clusters:
    made = Clusters(tmp_path_factory.mktemp("clusters"))
    made.ask("well", NODE_WORK, **ON_NODES)
    for sick in (DRA, CRO):
        made.ask(sick, NODE_WORK, sick, **ON_NODES)
    for key, (task, sick, absent, variables) in REMOVALS.items():
        made.ask(key, task, sick, absent, **variables)
    made.ask("no definitions", include("uninstall", "attached"), absent=CRO, **NO_CLAIMS)
    return made


@pytest.fixture(scope="module")
def answers(clusters: Clusters) -> dict[str, Played]:
    return clusters.answers()


def test_device_of_a_claim_is_not_released(answers: dict[str, Played]) -> None:
    todo = answers["well"].result("Choose the work of each node")["ansible_facts"]["node_todo"]
    assert ([one["device"] for one in todo["release"]], len(todo["write"])) == ([], 1)


@pytest.mark.parametrize("key", [DRA, CRO, *REMOVALS])
def test_nothing_is_begun_or_removed_while_a_kind_is_not_served(
    clusters: Clusters, answers: dict[str, Played], key: str
) -> None:
    assert answers[key].status != 0
    assert clusters.changes(key) == []
    assert [each for each in answers[key].failures if "does not mean that there are none" in each]


def test_cluster_without_the_definitions_has_no_device(answers: dict[str, Played]) -> None:
    assert answers["no definitions"].status == 0
