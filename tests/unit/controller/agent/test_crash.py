# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent that ends without a word at any step: the next one brings its work to the right end.

From the moment of its end nothing of the first agent reaches the API server or the bus, as after kill -9.
"""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Unreachable
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import NODE, RELEASE
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    READY,
    REMOVED,
    STEPS_DOWN,
    STEPS_UP,
    Evidence,
)
from ansible_collections.composable.infra.tests.unit.controller.agent.fake_operations import (
    FakeOperations,
    Node,
    resource,
    running,
    until,
)
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import Call, FakeApi

ASKED = "2026-01-01T00:00:00.000000Z"


class Mortal:
    """Passes calls on to ``target`` until ``dead`` is set; each call after that fails."""

    def __init__(self, target: object, dead: threading.Event) -> None:
        self._target, self._dead = target, dead

    @property
    def client(self) -> t.Any:
        """This, for those who take a Client."""
        return self

    def __getattr__(self, name: str) -> t.Any:
        if self._dead.is_set():
            raise Unreachable("the process has ended")
        return getattr(self._target, name)


class MortalNode(Node):
    """A node whose first agent ends when evidence with a certain step is on its way to the API server."""

    def __init__(self, step: str, stored: bool) -> None:
        self.dead, self._step, self._stored = threading.Event(), step, stored
        super().__init__()
        self.real_api, self.real_operations = self.api, self.operations

    def boot_mortal(self) -> None:
        """Start the agent that will end."""
        self.real_api.before = self._watch
        self.api = t.cast(FakeApi, Mortal(self.real_api, self.dead))
        self.operations = t.cast(FakeOperations, Mortal(self.real_operations, self.dead))
        self.boot()

    def boot_next(self) -> None:
        """Start the agent after it."""
        self.stop()
        self.api, self.operations = self.real_api, self.real_operations
        self.boot()

    def real_deletions(self) -> int:
        """How many pods were deleted so far."""
        return sum((call.verb, call.plural) == ("delete", "pods") for call in self.real_api.calls)

    def _watch(self, call: Call) -> None:
        self._called(call)
        notes = (call.body or {}).get("metadata", {}).get("annotations", {}) if isinstance(call.body, dict) else {}
        evidence = Evidence.parse(notes.get(NODE) or "")
        if evidence and any(s.step == self._step for s in evidence.steps) and not self.dead.is_set():
            self.dead.set()
            if not self._stored:
                raise Unreachable("the process has ended")


def notes(node: MortalNode) -> dict[str, str]:
    """Annotations that the API server has."""
    found: dict[str, str] = node.real_api.one(COMPOSABLE_RESOURCES, "gpu-1")["metadata"]["annotations"]
    return found


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("step", STEPS_UP)
def test_on_the_way_up(step: str, stored: bool) -> None:
    node = MortalNode(step, stored)
    try:
        node.operations.bus["dev-1"] = "GPU-1"
        node.real_api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1", "GPU-1"))
        node.boot_mortal()
        until("the agent has ended", node.dead.is_set)
        node.stop()
        before, is_known = node.real_deletions(), "PluginRestarted" in notes(node).get(NODE, "")
        node.boot_next()
        until("the device is announced", lambda: node.phase("gpu-1") == READY and "Announced" in node.steps("gpu-1"))
        assert node.trouble("gpu-1") == ""
        assert len(node.steps("gpu-1")) == len(set(node.steps("gpu-1")))
        # Where the step is lost, nobody knows any more that the plugin began after the device was used.
        most = before if is_known else before + 1
        assert node.real_deletions() <= most, "the plugin that has looked already is left alone"
        assert node.real_operations.bus == {"dev-1": "GPU-1"}
    finally:
        node.stop()


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("step", [s for s in STEPS_DOWN if s != "PluginRestarted"])
def test_on_the_way_down(step: str, stored: bool) -> None:
    node = MortalNode(step, stored)
    try:
        node.operations.bus["dev-1"] = "GPU-1"
        node.start_plugin()
        node.real_api.put(COMPOSABLE_RESOURCES, resource("gpu-1", "dev-1", "GPU-1"))
        node.boot_mortal()
        until("it is ready", lambda: '"Ready"' in notes(node).get(NODE, ""))
        ask = resource("gpu-1", "dev-1", "GPU-1", deleted=True, release=ASKED, node=notes(node)[NODE])
        node.real_api.put(COMPOSABLE_RESOURCES, ask)
        until("the agent has ended", node.dead.is_set)
        node.boot_next()
        until("it is removed, and its slice follows", lambda: node.phase("gpu-1") == REMOVED
              and ("Withdrawn" in node.steps("gpu-1") or "RemovedFromBus" not in node.steps("gpu-1")))
        assert node.trouble("gpu-1") == ""
        assert node.real_operations.bus == {}
        assert RELEASE in notes(node)
    finally:
        node.stop()


def test_a_mortal_agent_does_end() -> None:
    """The stand-in for kill -9 is one: after it no call gets through."""
    dead = threading.Event()
    with running() as node:
        mortal = Mortal(node.api, dead)
        assert mortal.calls is node.api.calls
        dead.set()
        with pytest.raises(Unreachable):
            mortal.get(COMPOSABLE_RESOURCES, "gpu-1")
