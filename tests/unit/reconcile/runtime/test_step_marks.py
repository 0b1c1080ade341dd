# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request to the CDI Manager is measured when it was answered, and not when the code around it failed."""

from __future__ import annotations

import contextlib

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Refused
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.claim_steps import ClaimSteps
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.step_marks import DecidedSteps
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.recorded_metrics import RecordedMetrics


@pytest.mark.parametrize(("error", "counted", "observed"), [
    (None, 1, 1), (Refused("no"), 1, 0), (IndexError("no device in the answer"), 0, 0)])
def test_only_an_answer_of_the_manager_is_measured(bench: Bench, error: Exception | None, counted: int,
                                                   observed: int) -> None:
    metrics = RecordedMetrics()
    steps = DecidedSteps(bench.state, ClaimSteps(metrics, manager="fm"))
    for what, measured in (("attach", steps.attaching("gpu-a", "node-0", A100)), ("detach", steps.detaching(A100))):
        with contextlib.suppress(Refused, IndexError), measured:
            if error:
                raise error
        counts = [metrics.get(f"{what}es_total", manager="fm", model=A100, outcome=outcome, reason=reason)
                  for outcome, reason in (("succeeded", "none"), ("failed", "refused"))]
        assert (sum(counts), len(metrics.observed(f"{what}_duration_seconds"))) == (counted, observed)
