# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An attach that an asynchronous manager continues after the caller has gone."""

from __future__ import annotations

import threading

from ..api import FabricManager, Task
from ..errors import FabricError


class BackgroundAttach:
    """One attach in its own thread, which may run longer than the caller.

    ``heard`` is set when the manager has accepted (``handles``) or answered (``task`` or
    ``error``).
    """

    def __init__(self, fabric: FabricManager, machine: str, model: str, count: int, kind: str) -> None:
        self.handles: tuple[str, ...] = ()
        self.task: Task | None = None
        self.error: FabricError | None = None
        self.heard = threading.Event()
        self._args = (fabric, machine, model, count, kind)
        threading.Thread(target=self._run, name="attach", daemon=True).start()

    def _started(self, handles: tuple[str, ...]) -> None:
        self.handles = handles
        self.heard.set()

    def _run(self) -> None:
        fabric, machine, model, count, kind = self._args
        try:
            self.task = fabric.attach(machine, model, count, kind=kind, started=self._started)
        except FabricError as error:
            self.error = error
        finally:
            self.heard.set()
