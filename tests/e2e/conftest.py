# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stages and front doors for all end-to-end tests.

A test file says with ``STAGE = {...}`` (fields of StageOptions) what stage its tests share, and with
``FRONT_DOOR = "..."`` which front door the fixture ``front_door`` opens.
"""

from __future__ import annotations

import os
import typing as t
from collections.abc import Generator, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.binaries.releases import DEFAULT_SERIES
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab, LabOptions
from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import Stage, StageOptions, lab_options
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.pytest_plugin import LabFactory
from ansible_collections.composable.infra.tests.e2e import evidence
from ansible_collections.composable.infra.tests.e2e.node_story import node_story
from ansible_collections.composable.infra.tests.e2e.shared_lab import SharedLab
from ansible_collections.composable.infra.tests.e2e.support.front_doors import FrontDoor, open_front_door
from ansible_collections.composable.infra.tests.e2e.support.support import OPENED

HERE = Path(__file__).parent
StageFactory = t.Callable[..., Stage]
OpenProcess = t.Callable[..., front_doors.Process]
# make test has 15 minutes. These files and tests take more than an hour together and are left to make e2e-slow, a part
# of make test-all. Each entry is a file, or a file and a test of it.
SLOW = ("test_agent_skew", "test_agreement", "test_bad_input", "test_bootstrap", "test_cluster_api",
        "test_cluster_modules", "test_cxl_memory", "test_defragment", "test_demo", "test_demo_direct",
        "test_direct_killed", "test_ends", "test_faults", "test_flow_playbook", "test_flow_rulebook",
        "test_gated_bursts", "test_gated_job", "test_handovers", "test_hostile_pods", "test_installed",
        "test_killed", "test_kills", "test_kubernetes_habits", "test_kueue_demo", "test_lab_processes",
        "test_label_chain", "test_managers", "test_misfits", "test_mixes", "test_modules", "test_move_driver",
        "test_node_leaves", "test_older_definitions", "test_other_kinds", "test_outage", "test_outage_rulebook",
        "test_over_ssh",
        "test_own_driver", "test_partial_refusal", "test_playbooks", "test_pod_groups", "test_random_returns",
        "test_real_autoscaler", "test_renamed_node", "test_reset", "test_restore", "test_role_cohdi",
        "test_role_controllers", "test_role_monitoring", "test_rounds", "test_secrets", "test_shares",
        "test_ssh_playbooks", "test_ssh_real_nodes", "test_stack_objects", "test_stand_in_of_cohdi", "test_takeover",
        "test_thefts", "test_two_leaders", "test_usage_restarts", "test_vendor_plugin", "test_version_skew",
        "test_whatif", "test_without_hands",
        "test_accounts::test_no_account_may_do_anything_else_in_the_cluster[all]",
        "test_accounts::test_no_account_may_do_anything_else_in_the_cluster[operator]",
        "test_accounts::test_no_account_may_do_anything_else_in_the_cluster[publisher]",
        "test_accounts::test_no_account_may_do_anything_else_in_the_cluster[scaler]",
        "test_crash::test_killed_at_random_moments", "test_crash::test_killed_between_reply_and_status_write",
        "test_crash::test_killed_while_the_request_lies_unread",
        "test_flow_controller::TestController::test_model_that_has_run_out_is_waited_for",
        "test_gated::test_api_server_away_during_an_attach",
        "test_gated::test_device_that_somebody_else_took_is_attached_anew",
        "test_gated::test_group_takes_all_or_nothing",
        "test_gated::test_killed_controller_holds_nobody_once_its_lease_is_over",
        "test_gated::test_manager_away_holds_the_pod_until_it_is_back",
        "test_gated::test_pod_that_opts_out_takes_the_pools_way",
        "test_gated_front_doors::test_check_mode_says_what_would_be_done_and_does_nothing",
        "test_gated_front_doors::test_held_pods_are_served[playbook]",
        "test_gated_waiting::test_order_is_kept_and_said",
        "test_idle::test_open_device_stays_until_it_is_closed",
        "test_page::test_waits_of_the_day_outlive_the_process_and_the_devices",
        "test_prewarm::test_nobody_waits_for_the_sake_of_the_floor",
        "test_provisioning_requests::test_next_controller_goes_on_with_what_was_booked",
        "test_rbac::test_each_component_alone_with_its_own_account",
        "test_rbac::test_role_taken_away_and_given_back_while_it_runs")
QUICK: dict[str, t.Any] = {"attach": 0.3, "detach": 0.1, "hold": 0.5, "scan_interval": 0.5}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes long."""
    for item in items:
        name = f"{item.path.stem}::{item.nodeid.partition('::')[2]}"
        if item.path.is_relative_to(HERE) and not {item.path.stem, name}.isdisjoint(SLOW):
            item.add_marker("slow")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the logs of the processes that ran when a test failed, and what its nodes were about."""
    report = yield
    if report.failed:
        report.sections += [(f"end of the log of {name}", text) for name, text in OPENED.logs()]
        report.sections += [section for used in getattr(item, "funcargs", {}).values() if isinstance(used, Stage)
                            for section in node_story(used)]
        evidence.keep(item, report)
    return report


def pytest_sessionfinish() -> None:
    """Leave no process behind, whatever a test did."""
    OPENED.stop_all()


@pytest.fixture(scope="session")
def shared_lab() -> Iterator[SharedLab]:
    """The lab that the files of this worker use one after the other."""
    lab = SharedLab()
    yield lab
    lab.close()


@pytest.fixture(scope="module")
def lab_factory(request: pytest.FixtureRequest, shared_lab: SharedLab) -> Iterator[LabFactory]:
    """``lab_factory(nodes=4)``: keywords as in LabOptions; the shared lab, or one of the file's own."""
    own: list[Lab] = []
    failed_before = request.session.testsfailed

    def start(**options: t.Any) -> Lab:
        options.setdefault("kubernetes", os.environ.get("LAB_KUBERNETES", DEFAULT_SERIES))
        wanted = LabOptions(**options)
        lab = shared_lab.take(wanted)
        if lab is None:
            lab = Lab.up(wanted)
            own.append(lab)
        return lab

    yield start
    for lab in reversed(own):
        lab.down()
    shared_lab.give_back(broken=request.session.testsfailed > failed_before)


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Lab:
    """A lab with two nodes for all tests of the file."""
    return lab_factory(nodes=2)


@pytest.fixture(scope="module")
def stage_factory(lab_factory: LabFactory) -> Iterator[StageFactory]:
    """``stage_factory(nodes=4, hold=1.0)``: fields of StageOptions; taken down at the end of the test file."""
    started: list[Stage] = []

    def start(**options: t.Any) -> Stage:
        options.setdefault("kubernetes", os.environ.get("LAB_KUBERNETES", DEFAULT_SERIES))
        wanted = StageOptions(**{**QUICK, **options})
        started.append(Stage(wanted, lab=lab_factory(**asdict(lab_options(wanted)))))
        return started[-1]

    yield start
    for stage in reversed(started):
        OPENED.stop_those_of(stage)
        stage.close()


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest, stage_factory: StageFactory) -> Stage:
    """One stage for all tests of the file."""
    return stage_factory(**getattr(request.module, "STAGE", {}))


@pytest.fixture
def timeline(stage: Stage) -> Iterator[Timeline]:
    """What happens to claims and pods from the beginning of the test."""
    line = Timeline(stage)
    yield line
    line.stop()


@pytest.fixture
def open_process() -> Iterator[OpenProcess]:
    """``open_process(front_doors.controller, stage, "--only", "scaler")``: stopped at the end of the test."""
    before = list(OPENED.processes)

    def start(make: t.Callable[..., front_doors.Process], *args: t.Any, **more: t.Any) -> front_doors.Process:
        return OPENED.add(make(*args, **more))

    yield start
    OPENED.stop_all(but=before)


@pytest.fixture(scope="module")
def front_door(request: pytest.FixtureRequest, stage: Stage) -> Iterator[FrontDoor]:
    """The front door that the file's ``FRONT_DOOR`` names, open for all tests of the file."""
    before = list(OPENED.processes)
    yield open_front_door(request.module.FRONT_DOOR, stage)
    OPENED.stop_all(but=before)
