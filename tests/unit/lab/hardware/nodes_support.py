# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_nodes.py` and others share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ansible_collections.composable.infra.lab.hardware.fabric import FabricState


class FakeWatcher:
    """It stands for the watch of a fabric, which the test plays itself."""

    put: Callable[[FabricState], None]

    def __init__(self, url: str, ca: Path | None, put: Callable[[FabricState], None], log: object) -> None:
        FakeWatcher.put = staticmethod(put)

    def start(self) -> None:
        """Nothing to do."""
