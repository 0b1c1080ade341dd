# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules say which request is struck; a mistake in one is named; the same seed strikes the same requests."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.emulator import FabricSpec, SpecError
from ansible_collections.composable.infra.emulator.faults.injector import Faults
from ansible_collections.composable.infra.emulator.faults.kinds import FUNCTIONS
from ansible_collections.composable.infra.emulator.faults.profiles import PROFILES
from ansible_collections.composable.infra.emulator.faults.rules import KINDS, Faulty, Rule, faults_in
from ansible_collections.composable.infra.emulator.pool.fields import Fields


def parsed(**given: t.Any) -> Faulty:
    return faults_in(Fields(given, "faults", ("seed", "profile", "rules")))


def rule(**given: t.Any) -> Rule:
    (found,) = parsed(rules=[given]).rules
    return found


def test_every_kind_has_a_function_and_parameters() -> None:
    assert set(FUNCTIONS) == set(KINDS)
    for function in FUNCTIONS.values():
        assert function.__doc__


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_may_be_given_bare(kind: str) -> None:
    found = rule(kind=kind)
    assert (found.kind, found.nth, found.times, found.probability) == (kind, (), None, 1.0)
    assert set(found.parameters) == set(KINDS[kind])


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_are_valid(name: str) -> None:
    assert len(parsed(profile=name, seed=1).rules) == len(PROFILES[name])


def test_a_document_may_hold_faults() -> None:
    faults = {"seed": 7, "profile": "lost-reply", "rules": [{"kind": "latency", "seconds": 1}]}
    spec = FabricSpec.parse({"faults": faults})
    assert spec.faults.seed == 7
    assert [found.kind for found in spec.faults.rules] == ["lost_reply", "lost_reply", "lost_reply", "latency"]
    assert FabricSpec.parse({}).faults == Faulty()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"kind": "sleepy"}, r"faults.rules\[0\].kind: 'sleepy' is not allowed. Allowed are latency"),
        ({}, r"faults.rules\[0\].kind: None"),
        ({"kind": "latency", "status": 500}, "'status' is not a known key. Allowed are kind, manager"),
        ({"kind": "latency", "seconds": -1}, "seconds: it must be a number of at least 0"),
        ({"kind": "latency", "distribution": "odd"}, "distribution: 'odd' is not allowed. Allowed are fixed, uniform"),
        ({"kind": "status", "status": 200}, "status: it must be from 400 to 599, not 200"),
        ({"kind": "truncated", "keep": 1}, "keep: it must be below 1"),
        ({"kind": "health", "health": "ill"}, "health: 'ill' is not allowed. Allowed are OK"),
        ({"kind": "reset", "after": "yes"}, "after: it must be true or false"),
        ({"kind": "reset", "manager": "xm"}, "manager: 'xm' is not allowed. Allowed are"),
        ({"kind": "reset", "purpose": "fun"}, "purpose: 'fun' is not allowed. Allowed are"),
        ({"kind": "reset", "path": "("}, r"path: '\(' is not a regular expression"),
        ({"kind": "reset", "nth": 0}, "nth: it must be a whole number from 1"),
        ({"kind": "reset", "nth": [1, "2"]}, "nth: it must be a whole number from 1"),
        ({"kind": "reset", "probability": 1.5}, "probability: it must be from 0 to 1"),
        ("reset", r"faults.rules\[0\]: it must be a mapping"),
    ],
)
def test_a_mistake_is_named(wrong: t.Any, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        parsed(rules=[wrong])


def test_an_unknown_profile_is_named() -> None:
    with pytest.raises(SpecError, match=r"faults\.profile: 'calm' is not allowed. Allowed are none, latency"):
        parsed(profile="calm")


@pytest.mark.parametrize(
    ("given", "matches"),
    [
        ({}, True),
        ({"manager": "fm"}, True),
        ({"manager": "cm"}, False),
        ({"method": "patch"}, True),
        ({"method": "GET"}, False),
        ({"path": "/update$"}, True),
        ({"path": "^/update"}, False),
        ({"purpose": "attach"}, True),
        ({"purpose": "detach"}, False),
        ({"contains": "A100"}, True),
        ({"contains": "H100"}, False),
        ({"manager": "fm", "path": "machines", "contains": "tenant=t"}, True),
    ],
)
def test_which_requests_a_rule_is_about(given: dict[str, str], matches: bool) -> None:
    found = rule(kind="reset", **given)
    path = "/machines/m/update"
    assert found.matches("fm", "PATCH", path, "attach", lambda: f"{path}?tenant=t A100") is matches


class TestStrikes:
    """Which of the requests that a rule is about it strikes."""

    def struck(self, seed: int = 1, requests: int = 20, **given: t.Any) -> list[int]:
        faults = Faults(Faulty(seed, (rule(kind="reset", **given),)))
        (counted,) = faults._rules
        return [number for number in range(1, requests + 1) if faults._strikes(counted)]

    def test_all(self) -> None:
        assert self.struck(requests=3) == [1, 2, 3]

    def test_the_nth(self) -> None:
        assert self.struck(nth=[2, 5]) == [2, 5]
        assert self.struck(nth=3) == [3]

    def test_only_so_often(self) -> None:
        assert self.struck(times=2) == [1, 2]

    def test_by_chance_and_the_same_for_the_same_seed(self) -> None:
        once = self.struck(probability=0.5, requests=200)
        assert once == self.struck(probability=0.5, requests=200)
        assert 50 < len(once) < 150
        assert once != self.struck(seed=2, probability=0.5, requests=200)

    def test_never(self) -> None:
        assert self.struck(probability=0) == []


def test_a_seed_is_made_up_and_told() -> None:
    faults = Faults()
    assert faults.told() == {"seed": faults.seed, "rules": []}
    faults.replace(parsed(rules=[{"kind": "status", "status": 503, "nth": 1}], seed=9))
    told = faults.told()
    assert told["seed"] == 9
    assert (told["rules"][0]["kind"], told["rules"][0]["matched"], told["rules"][0]["applied"]) == ("status", 0, 0)
    assert told["rules"][0]["parameters"] == {"status": 503, "retry_after": None, "after": False, "html": False}
