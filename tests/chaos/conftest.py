# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests of the simulation itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.tests.chaos.simulation.patching import running
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Simulation


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    """Yield a running simulation without processes."""
    made = Simulation(7)
    with running(made):
        yield made
        made.close([made.outside])
