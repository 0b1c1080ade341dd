# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests of the simulation itself, and which tests are left to make test-all."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.chaos.simulation.patching import running
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Simulation

HERE = Path(__file__).parent
# make test breaks these guards on purpose. A part of make test-all, make chaos-all, breaks all of them.
BROKEN: t.Final = "test_broken_guard_is_noticed"
BROKEN_IN_EACH_RUN: t.Final = (
    "a device that others were shown becomes a pool device", "a watch goes on in the future after a restore",
    "an answer about another machine is believed", "no fence before a request", "no intent before the request",
    "no second proof of idleness before the detach")
SLOW: t.Final = ("test_report_shows_violations_and_the_smallest_scenario",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes long."""
    for item in items:
        test, _, guard = item.name.removesuffix("]").partition("[")
        if item.path.is_relative_to(HERE) and (test in SLOW or (test == BROKEN and guard not in BROKEN_IN_EACH_RUN)):
            item.add_marker("slow")


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    """Yield a running simulation without processes."""
    made = Simulation(7)
    with running(made):
        yield made
        made.close([made.outside])
