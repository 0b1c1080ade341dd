# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the what-if tests: a cluster with held pods, and captures of it."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif import capture_file
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.answer import Answer, answer
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.capture import Capture, take
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.changes import changed
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench

Json = dict[str, t.Any]
TakeCapture = Callable[..., Capture]
Ask = Callable[..., Answer]


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch, config: EngineConfig) -> TakeCapture:
    """Captures what a bench has, through a file's text; the second argument: another configuration."""

    def capture(bench: Bench, other: EngineConfig | None = None) -> Capture:
        monkeypatch.setattr(f"{EngineConfig.__module__}.connect", lambda _config: bench.fabric)
        text = json.dumps(capture_file.as_document(take(bench.api.client, other or config)))
        return capture_file.of_document(json.loads(text), "capture.json")

    return capture


@pytest.fixture
def ask(held: Bench, captured: TakeCapture) -> Ask:
    """What the planners say of the bench with held pods after changes."""

    def asked(*changes: Json) -> Answer:
        return answer(changed(captured(held), changes))

    return asked
