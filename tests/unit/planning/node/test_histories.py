# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random histories of one node: claims come and go, replies are lost, the engine crashes, events are doubled."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ansible_collections.composable.infra.tests.unit.planning.builders import A100, HOLD, T4
from ansible_collections.composable.infra.tests.unit.planning.node.simulator import SimulatedClaim, Simulator

STEPS, MOST_CLAIMS, PATIENCE = 70, 4, 400


class History:
    """The scheduler and the users of a simulated node."""

    def __init__(self, seed: int, **options: bool) -> None:
        self.rng = random.Random(seed)
        self.node = Simulator(self.rng, **options)
        self.served = 0
        self.born = 0

    def step(self) -> None:
        """Something happens, time passes, and passes run: none, one, or the same one twice."""
        if self.rng.random() < 0.3 and len(self.node.claims) < MOST_CLAIMS:
            self.born += 1
            models = tuple(self.rng.choice((A100, T4)) for _unused in range(self.rng.choice((1, 1, 2))))
            self.node.claims[f"c{self.born}"] = SimulatedClaim(f"c{self.born}", models)
        if self.node.claims and self.rng.random() < 0.1:
            del self.node.claims[self.rng.choice(sorted(self.node.claims))]
        if self.node.faults and self.rng.random() < 0.05:
            self.node.crash()
        self.go_on(self.rng.choice((0.1, 0.5, 1.0, 3.0, 10.0, 100.0)))

    def go_on(self, seconds: float) -> None:
        """Time passes, the scheduler works, passes run."""
        self.node.advance(seconds)
        for claim in list(self.node.claims.values()):
            self.schedule(claim)
        for _unused in range(self.rng.choice((1, 1, 2)) if self.node.faults else 1):
            self.node.run_pass()
            self.node.check()

    def schedule(self, claim: SimulatedClaim) -> None:
        """What the scheduler does about one claim now, or not yet."""
        if claim.phase == "using" or self.rng.random() < 0.4:
            return
        if claim.phase in ("reschedule", "failed"):
            claim.phase = "pending"
        if claim.phase == "pending" and not self._bind(claim):
            claim.phase, claim.since = "preparing", self.node.now

    def _bind(self, claim: SimulatedClaim) -> bool:
        """Take the node's own devices where there are enough: those held for this claim first, else any."""
        found: list[str] = []
        own = sorted(self.node.view().resources, key=lambda r: (r.held_for != claim.uid, r.name))
        for model, number in Counter(claim.models).items():
            free = [r.device_uid for r in own if r.model == model and r.visible and not r.used_by and not r.deleting]
            if len(free) < number:
                return False
            found += free[:number]
        claim.phase, claim.devices = "using", tuple(found)
        self.served += 1
        return True

    def quiet_down(self) -> None:
        """No more faults and no more claims; those that are there get what they want."""
        self.node.faults = False
        for _unused in range(PATIENCE):
            self.go_on(2.0)
            if not self.node.operations and all(c.phase == "using" for c in self.node.claims.values()):
                return
        raise AssertionError(f"still waiting: {self.node.claims} {self.node.resources}")

    def outlast_the_hold(self) -> None:
        """Idle devices become due and leave."""
        for seconds in (HOLD, 60.0, HOLD, *[3.0] * 30):
            self.go_on(seconds)


def play(seed: int, **options: bool) -> History:
    """A whole history up to the quiet at its end."""
    print(f"seed {seed}")
    history = History(seed, **options)
    for _unused in range(STEPS):
        history.step()
    history.quiet_down()
    history.outlast_the_hold()
    return history


def attached(history: History) -> Counter[str]:
    """Devices on the node per model."""
    return Counter(history.node.fabric.attached.values())


def assert_at_rest(history: History) -> None:
    """What is attached is what claims use; when they end, all of it goes back."""
    wanted = Counter(m for c in history.node.claims.values() for m in c.models)
    assert attached(history) == wanted
    assert Counter(r.model for r in history.node.resources.values()) == wanted
    assert Counter({r.model: r.size for r in history.node.requests.values()}) == wanted
    history.node.claims.clear()
    history.go_on(1.0)
    history.outlast_the_hold()
    assert not attached(history)
    assert not history.node.resources
    assert not any(r.size for r in history.node.requests.values())


@pytest.mark.parametrize("seed", range(6))
def test_without_faults_everything_is_served_and_returned(seed: int) -> None:
    history = play(seed, faults=False)
    assert history.served > 2
    assert_at_rest(history)


@pytest.mark.parametrize("seed", range(100, 120))
def test_with_faults_nothing_is_attached_twice_nothing_leaks_and_all_is_served(seed: int) -> None:
    history = play(seed)
    assert history.node.crashes > 0
    assert history.served > 0
    assert_at_rest(history)


@pytest.mark.parametrize("seed", range(200, 208))
def test_with_a_slice_that_shows_detached_devices_for_a_while(seed: int) -> None:
    assert_at_rest(play(seed, lingers=True))


def test_with_the_seed_of_this_run(seed: int) -> None:
    assert_at_rest(play(seed))
