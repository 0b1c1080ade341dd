# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make demo MODE=kueue`` as a user starts it: a Job gets its pods when all its devices are attached."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.lab.demo import queued
from ansible_collections.composable.infra.tests.e2e.lab.demo_played import moments, played

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints; it must end well."""
    return played(queued.MODE, tmp_path_factory.mktemp("demo"), drawn=False)


def test_jobs_are_admitted_when_their_devices_are_attached(printed: str) -> None:
    order = moments(printed, "controller shows the fabric live at http",
                    "user       creates Job train", "queue      Job train has quota, creates ProvisioningRequest",
                    "queue      Job train is admitted: 4 devices are attached",
                    "queue      Job next is admitted: 2 devices are attached")
    assert order == sorted(order)


def test_a_job_that_does_not_fit_says_why_and_has_no_pod(printed: str) -> None:
    assert "Job large waits without pods: " in printed
    assert "Job large is admitted" not in printed
    assert "Job large has no pod, and the devices are back in the fabric" in printed
