# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fast starts of emulators for all integration tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.tests.integration.forked_emulators import ForkServer


@pytest.fixture(scope="session", autouse=True)
def forked_emulators() -> Iterator[None]:
    """Start every emulator of the session by fork."""
    server = ForkServer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Emulator, "launch", server.launch)
        yield
    server.close()


@pytest.fixture
def emulators_as_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the emulators of a test as users do, with an interpreter of their own."""
    monkeypatch.setattr(Emulator, "launch", subprocess.Popen)
