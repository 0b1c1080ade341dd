# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the demo about devices that come up: one line for each device, with the pod that it is
for.

Only ``VERBOSE=1`` prints a line for each step on a node, 24 lines for four devices.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator

from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import read_claim
from ansible_collections.composable.infra.plugins.module_utils.node import evidence

Json = dict[str, t.Any]
_UUID: t.Final = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
STEPS: t.Final = {evidence.ON_BUS: "on the bus", evidence.BOUND: "driver bound", evidence.TOUCHED: "touched",
                  evidence.PLUGIN_RESTARTED: "DRA plugin restarted", evidence.ANNOUNCED: "in the slice"}


def short(text: str) -> str:
    """Return a text with the first eight characters of each UUID in it."""
    return _UUID.sub(r"\1", text)


class DeviceLines:
    """Remembers its lines, so that a step that a node writes twice is one line. Not thread-safe."""

    def __init__(self, *, verbose: bool = False) -> None:
        self._verbose = verbose
        self._said: set[tuple[str, str]] = set()

    def of(self, raw: Json, found: evidence.Evidence) -> Iterator[tuple[str, str]]:
        """Yield (who, what) for each new fact about a device.

        ``raw`` is its ComposableResource, and ``found`` the evidence from the node. ``who`` is the
        claim that the device is attached for, or else the node.
        """
        name, node, claim = raw["metadata"]["name"], raw["spec"]["target_node"], read_claim(raw)
        who = claim.key.partition("/")[2] if claim else node
        device = short(found.uuid or found.device)
        steps = [(step.step, STEPS.get(step.step, step.step)) for step in found.steps] if self._verbose else []
        if found.phase == evidence.READY:
            steps.append((evidence.READY, "ready"))
        for step, words in steps:
            if (name, step) not in self._said:
                self._said.add((name, step))
                yield who, f"{device} on {node}: {words}"
