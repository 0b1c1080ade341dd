# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random runs of a queue of Jobs: each Job is served whole, and no device is lost.

``python -m ansible_collections.composable.infra.tests.chaos --queue --runs 200`` makes more of them.
"""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.tests.chaos.runs import queue_scenario, run


@pytest.mark.parametrize("seed", range(12))
def test_jobs_end_and_no_device_is_lost(seed: int) -> None:
    assert run(queue_scenario(seed)).violations == ()
