# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the simulated nodes and the vendor's plugins, and report when both have begun."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial

from ansible_collections.composable.infra.lab.api import Api
from ansible_collections.composable.infra.lab.control_plane.certificates import Pair
from ansible_collections.composable.infra.lab.hardware.node.records import Records
from ansible_collections.composable.infra.lab.hardware.nodes import SimulatedNodes
from ansible_collections.composable.infra.lab.hardware.options import HardwareOptions
from ansible_collections.composable.infra.lab.hardware.plugin.plugins import Plugins
from ansible_collections.composable.infra.lab.hardware.plugin.pods import PodWatcher
from ansible_collections.composable.infra.lab.hardware.plugin.slice_store import SliceStore


class Beginnings:
    """Calls `done` once, when all `parts` have begun. Thread-safe."""

    def __init__(self, parts: Iterable[str], done: Callable[[], object]) -> None:
        self._left, self._done = set(parts), done
        self._lock = threading.Lock()

    def begun(self, part: str) -> None:
        """Record that this part has begun. Repeated calls have no effect."""
        with self._lock:
            last = self._left == {part}
            self._left.discard(part)
        if last:
            self._done()


def run_nodes(options: HardwareOptions, log: Callable[[str], None]) -> None:
    """Simulate until the process ends."""
    pki = options.state_dir / "pki"
    api = Api(options.server, pki / "ca.crt", Pair(pki / "hardware.crt", pki / "hardware.key"))
    beginnings = Beginnings(("fabric", "plugins"), options.ready.touch)
    records = {name: Records(options.state_dir / "nodes" / name) for name in options.nodes}
    plugins = Plugins(SliceStore(api), records, options.plugin_start, options.plugin_grace,
                      partial(beginnings.begun, "plugins"), log)

    def lose(node: str) -> None:
        # The plugin of a real node is not simulated.
        if node in records:
            plugins.lose(node)

    nodes = SimulatedNodes(options, lose, partial(beginnings.begun, "fabric"), log)
    plugins.start()
    PodWatcher(api, plugins.pod, log).start()
    nodes.run()
