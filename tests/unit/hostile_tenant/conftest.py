# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tenant called red, who means harm, beside one called default, who does not."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating import reservation_tracker
from ansible_collections.composable.infra.tests.unit.controller.test_access import reviews, server
from ansible_collections.composable.infra.tests.unit.hostile_tenant import tenants
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.conftest import bench, held, quick
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import opted_in
from ansible_collections.composable.infra.tests.unit.reconcile.oneshot.quiescence_support import (
    Events,
)
from ansible_collections.composable.infra.tests.unit.reconcile.oneshot.test_quiescence import (
    events,
)

__all__ = ["Events", "bench", "events", "held", "quick", "reviews", "server"]


@pytest.fixture
def both(held: Bench) -> Bench:
    """Pods of red are held, too."""
    held.put({"apiVersion": "v1", "kind": "Namespace", "metadata": opted_in(tenants.RED)})
    return held


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the scheduler refuses counts at once."""
    monkeypatch.setattr(reservation_tracker, "PATIENCE", 0.0)
