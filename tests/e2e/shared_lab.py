# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One control plane for all test files of a worker: each file finds it as it was after its start.

A control plane costs five seconds of processor time to start. A file whose options ask for another one (a release,
feature gates, an audit log, real nodes) gets a lab of its own.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.control_plane.snapshot import Snapshot
from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.options import LabOptions


class SharedLab:
    """The lab of a worker, and whether a file has it."""

    def __init__(self) -> None:
        self._running: tuple[Lab, Snapshot] | None = None
        self._taken = False

    def take(self, wanted: LabOptions) -> Lab | None:
        """Return the lab as after its start, with the number of nodes that ``wanted`` has.

        None if another file has it, or if ``wanted`` asks for another kind of lab: then the file starts its own.
        """
        if self._taken or wanted != LabOptions(nodes=wanted.nodes, plugin_start=wanted.plugin_start):
            return None
        lab = self._reset(wanted.nodes) or self._start(wanted)
        self._taken = True
        return lab

    def give_back(self, *, broken: bool) -> None:
        """End the use by a file. ``broken``: a test failed, so the next file gets a fresh lab."""
        self._taken = False
        if broken:
            self.close()

    def close(self) -> None:
        """Stop the lab."""
        if self._running:
            self._running[0].down()
        self._running = None

    def _reset(self, nodes: int) -> Lab | None:
        if not self._running:
            return None
        lab, snapshot = self._running
        try:
            lab.reset(snapshot, nodes)
        except LabError as error:
            print(f"the shared lab is started again: {error}", file=sys.stderr)
            self.close()
            return None
        return lab

    def _start(self, wanted: LabOptions) -> Lab:
        lab = Lab.up(replace(wanted, plugin_start=0.0))
        self._running = lab, lab.snapshot()
        return lab
