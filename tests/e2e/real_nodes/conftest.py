# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One lab with two real nodes for all tests of a file; skipped, with the reason, where a machine cannot have them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.binaries.releases import DEFAULT_SERIES
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab, LabOptions
from ansible_collections.composable.infra.lab.real_nodes.requirements import missing

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a real node where there can be none."""
    trouble = missing()
    for item in items:
        if trouble and item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.skip(reason=trouble))


@pytest.fixture(scope="module")
def real_lab() -> Iterator[Lab]:
    """A lab with one simulated node and two real ones."""
    series = os.environ.get("LAB_KUBERNETES", DEFAULT_SERIES)
    with Lab.up(LabOptions(nodes=1, real_nodes=2, kubernetes=series)) as lab:
        yield lab
