# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role awx in an AWX that is in use: what jobs wait for, what was changed by hand, and a removal while jobs run."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.tests.e2e.support.played import Json, well
from ansible_collections.composable.infra.tests.integration.awx.conftest import OPTIONS, Run, named, running
from ansible_collections.composable.infra.tests.integration.awx.role_support import (
    ON_HOSTS,
    ON_NODES,
    sources_before,
)
from ansible_collections.composable.infra.tests.integration.awx.stub import Awx
from ansible_collections.composable.infra.tests.unit.house.files import ROOT


@pytest.fixture(scope="module")
def awx() -> Awx:
    """An AWX whose project is this checkout."""
    return Awx(ROOT)


@pytest.fixture(scope="module")
def run(awx: Awx, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The role against it, with a team that approves."""
    with running(awx, tmp_path_factory.mktemp("awx")) as start:
        yield lambda *options, **variables: start(*options, **{"awx_approvers": "GPU approvers", **variables})


def test_jobs_that_work_on_nodes_over_ssh_have_their_hosts(awx: Awx, run: Run) -> None:
    well(run(awx_config={**OPTIONS["awx_config"], "node_operations": "ssh"}))
    assert {name for name, sources in sources_before(awx).items() if sources} == ON_HOSTS | ON_NODES
    groups = {name: json.loads(template["extra_vars"]).get("composable_node_hosts")
              for name, template in named(awx, "job_templates").items()}
    assert {name for name, group in groups.items() if group == "gpu_nodes"} == ON_NODES


def damage(awx: Awx) -> None:
    """What somebody changes by hand, with rights that the team did not have."""
    (project,) = awx.items["projects"].values()
    project |= {"scm_branch": "other", "allow_override": True, "scm_update_on_launch": True}
    detach = named(awx, "job_templates")["Composable detach"]
    detach |= {"ask_credential_on_launch": True, "ask_inventory_on_launch": True, "ask_limit_on_launch": True,
               "ask_tags_on_launch": True, "forks": 50, "verbosity": 4, "limit": "x", "become_enabled": True,
               "timeout": 7, "scm_branch": "other", "job_tags": "some"}
    for workflow in awx.items["workflow_job_templates"].values():
        workflow |= {"ask_variables_on_launch": True, "ask_limit_on_launch": True}
    (team,) = [item["id"] for item in awx.items["teams"].values() if item["name"] == "GPU operators"]
    execute = named(awx, "role_definitions")["JobTemplate Execute"]["id"]
    awx.create("role_team_assignments", {"team": team, "role_definition": execute, "object_id": detach["id"]})


def state_of(awx: Awx) -> Json:
    """Everything but the numbers of assignments."""
    kept = ("projects", "job_templates", "workflow_job_templates")
    rights = sorted((item["team"], item["role_definition"], item["object_id"])
                    for item in awx.items["role_team_assignments"].values())
    stored: Json = json.loads(json.dumps({**{kind: awx.items[kind] for kind in kept}, "rights": rights}))
    return stored


def test_what_was_changed_by_hand_is_set_back(awx: Awx, run: Run) -> None:
    well(run())
    before = state_of(awx)
    damage(awx)
    assert state_of(awx) != before
    assert well(run()).changed
    assert state_of(awx) == before
    assert well(run()).changed == []


def test_approvers_approve_and_do_not_start(awx: Awx, run: Run) -> None:
    teams = {name: item["id"] for name, item in named(awx, "teams").items()}
    definitions = {number: item["name"] for number, item in awx.items["role_definitions"].items()}
    rights = {(item["object_id"], definitions[item["role_definition"]])
              for item in awx.items["role_team_assignments"].values() if item["team"] == teams["GPU approvers"]}
    assert rights == {(number, "WorkflowJobTemplate Approve") for number in awx.items["workflow_job_templates"]}


def test_nothing_is_removed_while_a_job_runs(awx: Awx, run: Run) -> None:
    (organization,) = awx.items["organizations"]
    awx.jobs.append({"id": 1, "type": "job", "status": "running", "name": "Composable attach",
                     "organization": organization})
    count = {kind: len(items) for kind, items in awx.items.items()}
    for options in (("--check",), ()):
        refused = run(*options, awx_state="absent")
        assert "awx_state: absent is not possible while these jobs run: Composable attach" in "".join(refused.failures)
        assert {kind: len(items) for kind, items in awx.items.items()} == count
    awx.jobs[0]["status"] = "successful"


def test_an_inventory_that_awx_still_removes_is_left_to_it(awx: Awx, run: Run) -> None:
    for inventory in awx.items["inventories"].values():
        inventory["pending_deletion"] = True
    well(run(awx_state="absent"))
    assert (awx.items["job_templates"], awx.items["projects"]) == ({}, {})
