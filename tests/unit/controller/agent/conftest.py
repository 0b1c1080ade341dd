# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent under test waits no seconds before it tries again."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.controller.agent import device_work, evidence_book, lane
from ansible_collections.composable.infra.plugins.module_utils.net.backoff import Backoff


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rules, on a finer scale."""
    monkeypatch.setattr(device_work, "RETRY", Backoff(0.05, longest=0.2))
    monkeypatch.setattr(lane, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(evidence_book, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(evidence_book, "STEP_SECONDS", 0.1)
