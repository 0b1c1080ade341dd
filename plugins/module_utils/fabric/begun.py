# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An attach that an asynchronous manager goes on with after whoever asked for it has gone."""

from __future__ import annotations

import threading
import typing as t

from .errors import FabricError
from .types import Fabric, Task
from .wish import Wish


class Begun:
    """One attach in a thread of its own, that may outlive whoever asked."""

    def __init__(self, fabric: Fabric, machine: str, wish: Wish, count: int) -> None:
        self.handle: str | None = None
        self.task: Task | None = None
        self.error: FabricError | None = None
        self.heard = threading.Event()
        self._args = (fabric, machine, wish, count)
        threading.Thread(target=self._run, name="attach", daemon=True).start()

    def _started(self, handle: str) -> None:
        self.handle = handle
        self.heard.set()

    def _run(self) -> None:
        fabric, machine, wish, count = self._args
        try:
            self.task = fabric.attach(machine, t.cast(str, wish.model), count, kind=wish.kind, started=self._started)
        except FabricError as error:
            self.error = error
        finally:
            self.heard.set()
