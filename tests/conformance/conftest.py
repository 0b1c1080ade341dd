# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Emulated managers that live as long as the run, and clients whose pauses are short."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.desired import executor as desired_executor
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.composition import executor
from ansible_collections.composable.infra.plugins.module_utils.fabric.http import session, token
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations import polling
from ansible_collections.composable.infra.tests.conformance.managers import MAIN, Emulators

HERE = Path(__file__).parent
# Left to make test-all: what make test shows of one CDI Manager of each protocol. Each entry is the end of a test's id.
SLOW = (
    *(f"test_an_operation_that_never_ends_is_requested_once[{row}]" for row in (
        "cm-complete", "nec-cpus", "nec-sequential", "redfish", "redfish-compose-one-sided", "redfish-connections",
        "redfish-zones", "sunfish-numbers")),
    *(f"test_nothing_that_a_run_writes_has_a_secret[{row}]" for row in ("cm", "nec", "sunfish")),
)
# Nothing here waits for hardware, so nothing needs to wait long. Modules and not their names: a move is seen at once.
PAUSES: t.Final = (
    (desired_executor, "LOOK_SECONDS", 0.03), (token, "REFUSAL_PAUSE", 0.05),
    (session, "BACKOFF", replace(session.BACKOFF, first=0.005)),
    (polling, "LOOKS", replace(polling.LOOKS, first=0.005, longest=0.05)), (polling, "NOTICE_SECONDS", 0.2),
    (executor, "BACKOFF", replace(executor.BACKOFF, first=0.005)), (executor, "NOTICE_SECONDS", 0.2),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes long."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.nodeid.endswith(SLOW):
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules are the same, only sooner."""
    for module, name, value in PAUSES:
        monkeypatch.setattr(module, name, value)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of whoever runs the tests must not matter."""
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def emulators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulators]:
    running = Emulators(tmp_path_factory.mktemp("emulators"))
    yield running
    running.stop()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes ``row`` and does not choose rows itself is run for every manager."""
    chosen = any("row" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "row" in metafunc.fixturenames and not chosen:
        metafunc.parametrize("row", MAIN)
