# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random runs, 16 or as many as AUTOSCALER_RUNS says. A failure names its seed; AUTOSCALER_SEED runs that one alone."""

from __future__ import annotations

import os

import pytest

from ansible_collections.composable.infra.controller.autoscaler.errors import Refused
from ansible_collections.composable.infra.controller.autoscaler.providers import table
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.random_run import STEPS, Run

AT_ONCE = 4
RUNS = int(os.environ.get("AUTOSCALER_RUNS", "16"))
SEED = os.environ.get("AUTOSCALER_SEED")


@pytest.mark.parametrize("first", [int(SEED)] if SEED else range(AT_ONCE))
def test_random_runs(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = dict(table.PROVIDERS)
    monkeypatch.setattr(table, "PROVIDERS", kinds)
    for seed in [first] if SEED else range(first, RUNS, AT_ONCE):
        run = Run(seed, kinds)
        try:
            for _unused in range(STEPS):
                run.step()
            run.settle()
            run.check()
        except (AssertionError, Refused) as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        finally:
            run.close()
