# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fast starts of emulators and Ansible modules for all integration tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.tests.e2e.support import played
from ansible_collections.composable.infra.tests.integration.forked_emulators import ForkServer
from ansible_collections.composable.infra.tests.integration.forked_modules import ModuleServer

HERE = Path(__file__).parent
# Left to make test-all: runs of roles, playbooks and modules of which a quick test has one of the same kind. Each entry
# is the beginning of a test's id below this folder.
SLOW = (
    *(f"awx/test_credential.py::TestEveryManager::test_modules_and_inventory_reach_it[{manager}]"
      for manager in ("cm", "nec", "redfish")),
    *(f"awx/test_credential.py::test_a_launcher_cannot_have_the_password_sent_to_him[{way}]"
      for way in ("endpoint-plan", "endpoint-report", "endpoint-detach", "layout_endpoint-attach",
                  "layout_endpoint-plan", "layout_endpoint-report")),
    "awx/test_removal.py", "awx/test_rulebook.py::test_nodes_are_ordered_by_jobs",
    "awx/test_shapes_of_sites.py::TestCredentials", "awx/test_shapes_of_sites.py::TestChanges",
    "awx/test_shapes_of_sites.py::TestData::test_the_same", "awx/test_shapes_of_sites.py::TestGateway",
    "awx/test_shapes_of_sites.py::test_a_second_run", "awx/test_upkeep.py",
    "eda/test_role.py::test_bad_input_is_named", "eda/test_role.py::test_one_that_is_switched_off",
    "eda/test_role.py::test_an_activation_of_its_own",
    "eda/test_role.py::test_one_that_runs_is_stopped_to_be_changed",
    "modules/test_inventory.py::test_large_fabric_stays_small",
    "modules/test_power.py::test_check_apply_apply_check[module]",
    *(f"modules/test_twice.py::{case}" for case in (
        "test_check_apply_apply_check[module]", "test_both_forms_say_the_same", "test_task_in_the_background",
        "test_module_forms_are_really_two", "test_one_block_of_defaults_serves_every_form")),
    "page/test_large.py",
    "over_ssh/test_node_work.py::test_host_that_dies_in_the_midst",
    "over_ssh/test_node_work.py::test_hosts_of_our_inventory_and_a_machine_credential",
    "over_ssh/test_node_work.py::test_only_the_nodes_that_are_reached_are_worked_on",
    *(f"playbook_refusals/test_bootstrap_first.py::test_nothing_is_changed_where_a_later_part_would_refuse[{case}]"
      for case in ("cohdi", "helm", "image")),
    "playbook_refusals/test_nodes.py",
    "playbook_runs/test_runs.py::test_awx_speaks_to_a_controller",
    "playbook_runs/test_runs.py::test_eda_sets_a_controller_up",
    "playbooks/test_emulator.py::test_a_port_in_use", "playbooks/test_emulator.py::test_what_is_in_the_way",
    "playbooks/test_escalation.py",
    *(f"playbooks/test_hosts.py::test_where_no_host_is_asked_for_it_goes_on[{case}]"
      for case in ("bootstrap-given1", "uninstall-given2")),
    "playbooks/test_uninstall_first.py", "playbooks/test_unserved_kinds.py",
    "redfish/test_validator.py::test_the_validator_finds_no_errors",
    "release/test_release.py::test_a_dry_run_makes_everything_and_changes_nothing",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes long."""
    for item in items:
        if item.path.is_relative_to(HERE):
            name = f"{item.path.relative_to(HERE).as_posix()}::{item.nodeid.partition('::')[2]}"
            if name.startswith(SLOW):
                item.add_marker("slow")


@pytest.fixture(scope="session", autouse=True)
def forked_emulators() -> Iterator[None]:
    """Start every emulator of the session by fork."""
    server = ForkServer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Emulator, "launch", server.launch)
        yield
    server.close()


@pytest.fixture(scope="session", autouse=True)
def forked_modules() -> Iterator[None]:
    """Run every module of the session on the local host by fork, unless the modules are for another ansible-core."""
    if os.environ.get("ANSIBLE_PROGRAMS"):
        yield
        return
    # The path of a socket has at most 107 bytes, so the folder is not below that of the tests.
    folder = Path(tempfile.mkdtemp(prefix="modules-"))
    server = ModuleServer(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(played, "INTERPRETER", str(server.interpreter))
        yield
    server.close()
    shutil.rmtree(folder)


@pytest.fixture
def emulators_as_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the emulators of a test as users do, with an interpreter of their own."""
    monkeypatch.setattr(Emulator, "launch", subprocess.Popen)
