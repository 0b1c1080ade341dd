# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The story of a node: what its devices say that happened there, the latest first."""

from __future__ import annotations

import time

from ansible_collections.composable.infra.controller.ui import story
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence, Step, moment
from ansible_collections.composable.infra.tests.unit.controller.ui.conftest import EVERYTHING, Looked
from ansible_collections.composable.infra.tests.unit.reconcile import objects


def events(looked: Looked) -> list[tuple[str, str]]:
    """(device, step) of node-0's story."""
    looked.view.refresh()
    told = looked.stories.of("node/node-0", EVERYTHING, looked.view)
    assert told is not None
    return [(event["device"], event["step"]) for event in told["events"]]


def attached(name: str, ago: float, *steps: str, trouble: str = "") -> objects.Json:
    """A device whose steps on the node are a second apart, the first of them so many seconds ago."""
    begin = time.time() - ago
    found = Evidence("Ready", f"d-{name}", steps=tuple(Step(step, moment(begin + n)) for n, step in enumerate(steps)))
    found = found.with_trouble("LostOnBus", trouble, begin + len(steps)) if trouble else found
    return objects.resource(name, device=f"d-{name}", state="Online", asked=ago + 2, created=ago + 4,
                            NODE=found.to_json())


def test_a_node_tells_what_happened_there_the_latest_first(looked: Looked) -> None:
    looked.put(attached("gpu-a", 100, "OnBus", "PluginRestarted"), attached("gpu-b", 50, "OnBus"))
    assert events(looked) == [
        ("gpu-b", "OnBus"), ("gpu-b", "attach requested"), ("gpu-b", "created"),
        ("gpu-a", "PluginRestarted"), ("gpu-a", "OnBus"), ("gpu-a", "attach requested"), ("gpu-a", "created")]


def test_a_trouble_comes_with_the_moment_it_was_met(looked: Looked) -> None:
    looked.put(attached("gpu-a", 100, "OnBus", trouble="it is gone from the bus"), attached("gpu-b", 50, "OnBus"))
    found = events(looked)
    assert ("gpu-a", "problem: it is gone from the bus") in found
    assert found.index(("gpu-a", "problem: it is gone from the bus")) == found.index(("gpu-a", "OnBus")) - 1


def test_a_story_is_no_longer_than_people_read(looked: Looked) -> None:
    looked.put(*(attached(f"gpu-{number}", 10.0 + number * 10, "OnBus", "Bound") for number in range(20)))
    found = events(looked)
    assert len(found) == story.MOST_EVENTS
    assert found[0] == ("gpu-0", "Bound")


def test_a_node_without_devices_has_nothing_to_tell(looked: Looked) -> None:
    assert events(looked) == []
