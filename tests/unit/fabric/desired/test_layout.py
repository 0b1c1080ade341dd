# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layouts: the least that must move, refused when it cannot be had, and empty once it is there."""

from __future__ import annotations

import random
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Machine
from ansible_collections.composable.infra.plugins.module_utils.fabric.desired import layout, layout_result
from ansible_collections.composable.infra.plugins.module_utils.fabric.desired.step import ATTACH, DETACH
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    BadConfiguration,
    Missing,
    Refused,
    Unavailable,
)
from ansible_collections.composable.infra.tests.unit.fabric.desired.fake_manager import (
    ABLE,
    MEM,
    A,
    B,
    FakeManager,
    devices,
)


@pytest.fixture
def fake() -> FakeManager:
    return FakeManager.of({"n0": 1, "n1": 1, "n2": 2, "alone": None}, devices(A, 4), devices(B, 2), devices(A, 2, 2))


def survey(
    fake: FakeManager, wanted: t.Any, kinds: dict[str, str] | None = None, empty: bool = False
) -> layout_result.Survey:
    return layout_result.survey(fake, wanted, kinds or {}, empty)


def steps(found: layout_result.Survey) -> list[tuple[str, str, str, int]]:
    return [(s.action, s.machine.name, s.model, s.count) for s in found.plan.steps]


def silent(text: str) -> None:
    """Nobody listens."""


def test_what_is_missing_is_attached_and_what_is_too_much_is_detached(fake: FakeManager) -> None:
    fake.put("n0", A, 3)
    found = survey(fake, {"n0": {A: 1, B: 1}, "n1": {A: 2}})
    assert steps(found) == [(DETACH, "n0", A, 1)] * 2 + [(ATTACH, "n0", B, 1), (ATTACH, "n1", A, 2)]
    assert found.plan.before == {"n0": {A: 3}, "n1": {}}
    assert found.plan.after == {"n0": {A: 1, B: 1}, "n1": {A: 2}}
    assert found.plan.steps[0].reason == f"n0 has 3 x {A}, 1 wanted"


def test_model_that_the_layout_does_not_name_leaves_the_machine(fake: FakeManager) -> None:
    fake.put("n0", B)
    assert steps(survey(fake, {"n0": {}})) == [(DETACH, "n0", B, 1)]
    assert steps(survey(fake, {"n0": None})) == [(DETACH, "n0", B, 1)]


def test_machine_that_the_layout_does_not_name_is_left_alone_unless_emptied(fake: FakeManager) -> None:
    fake.put("n1", A)
    assert steps(survey(fake, {"n0": {}})) == []
    assert steps(survey(fake, {"n0": {}}, empty=True)) == [(DETACH, "n1", A, 1)]


def test_devices_that_are_not_well_go_first(fake: FakeManager) -> None:
    fake.put("n0", A, 1, health="OK")
    critical = fake.put("n0", A, 1, health="Critical")
    fake.put("n0", A, 1, health="Unknown")
    warning = fake.put("n0", A, 1, health="Warning")
    gone = [s.device.uid for s in survey(fake, {"n0": {A: 2}}).plan.steps if s.device]
    assert gone == critical + warning


def test_device_on_its_way_out_is_not_counted(fake: FakeManager) -> None:
    (uid,) = fake.put("n0", A)
    fake.stock[uid] = replace(fake.stock[uid], state="detaching")
    assert steps(survey(fake, {"n0": {A: 1}})) == [(ATTACH, "n0", A, 1)]
    assert steps(survey(fake, {"n0": {}})) == []


def test_machines_by_uid_and_twins_by_uid_only() -> None:
    fake = FakeManager.of({"n0": 1}, devices(A, 1))
    assert steps(survey(fake, {"uid-n0": {A: 1}})) == [(ATTACH, "n0", A, 1)]
    with pytest.raises(BadConfiguration, match=r"layout: 'n0' is not allowed\. Machine uid-n0 is named twice"):
        survey(fake, {"uid-n0": {}, "n0": {}})
    with pytest.raises(Missing, match=r"layout: the CDI Manager knows no machine n9\. Allowed are n0"):
        survey(fake, {"n9": {}})


@pytest.mark.parametrize(("wanted", "said"), [
    ("x", "layout: 'x' is not allowed. It must map machines"), ({"n0": [A]}, "layout.n0: ['A100 40G'] is not allowed"),
    ({"n0": {A: -1}}, "layout.n0.A100 40G: -1 is not allowed. It must be a whole number of devices, 0 or more"),
    ({"n0": {A: True}}, "layout.n0.A100 40G: True is not allowed"), ({"n0": {A: 1.5}}, "layout.n0.A100 40G: 1.5 is"),
    ({"n0": {A: "two"}}, "layout.n0.A100 40G: 'two' is not allowed"),
])
def test_malformed_layout_is_named(fake: FakeManager, wanted: t.Any, said: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        survey(fake, wanted)
    assert said in str(refused.value)


def test_number_that_came_as_text_is_a_number(fake: FakeManager) -> None:
    assert steps(survey(fake, {"n0": {A: "2"}})) == [(ATTACH, "n0", A, 2)]


def test_shortage_counts_what_the_layout_gives_back(fake: FakeManager) -> None:
    fake.put("n0", A, 4)
    assert survey(fake, {"n0": {A: 2}, "n1": {A: 2}}).shortages == []
    assert survey(fake, {"n0": {A: 2}, "n1": {A: 3}}).shortages == [
        f"layout: 3 x {A} would be attached on fabric 1, allowed are 2 (0 free, 2 given back by the layout)"]


def test_other_fabric_lends_nothing(fake: FakeManager) -> None:
    assert survey(fake, {"n2": {B: 1}}).shortages == [
        f"layout: 1 x {B} would be attached on fabric 2, allowed are 0 (0 free, 0 given back by the layout)"]


def test_machine_on_no_fabric(fake: FakeManager) -> None:
    assert survey(fake, {"alone": {A: 1}}).shortages == [
        f"layout: machine alone is on no fabric and cannot get 1 x {A}"]


def test_kinds_are_those_of_the_machines_or_given() -> None:
    fake = FakeManager.of({"n0": 1, "n1": 1}, devices(MEM, 3, kind="memory"), devices(A, 1))
    assert [s.kind for s in survey(fake, {"n0": {MEM: 1, A: 1}}).plan.steps] == ["gpu", "gpu"]
    assert [s.kind for s in survey(fake, {"n0": {MEM: 1}}, {MEM: "memory"}).plan.steps] == ["memory"]
    fake.put("n1", MEM)
    assert [s.kind for s in survey(fake, {"n0": {MEM: 1}}).plan.steps] == ["memory"]


@pytest.mark.parametrize(("able", "seconds"), [
    ({}, 10 + 2), ({"batch": True}, 10 + 2)])
def test_duration_follows_what_the_manager_can_do_at_once(
    fake: FakeManager, able: dict[str, t.Any], seconds: float
) -> None:
    fake.put("n0", B, 2)
    found = survey(fake, {"n0": {A: 3}, "n1": {A: 1}})
    assert layout.predict(found.plan, replace(ABLE, **able), 10.0, 2.0) == seconds


def test_nothing_to_do_takes_no_time(fake: FakeManager) -> None:
    assert layout.predict(survey(fake, {"n0": {}}).plan, ABLE, 10.0, 10.0) == 0


def test_many_devices_take_several_rounds() -> None:
    fake = FakeManager.of({f"n{i}": 1 for i in range(50)}, devices(A, 200))
    found = survey(fake, {f"n{i}": {A: 4} for i in range(50)})
    assert layout.predict(found.plan, ABLE, 10.0, 10.0) == 40.0
    assert layout.predict(found.plan, replace(ABLE, batch=True), 10.0, 10.0) == 10.0


def test_applied_plan_is_empty_the_second_time(rng: random.Random) -> None:
    for _unused in range(40):
        names = {f"n{i}": rng.choice([1, 2]) for i in range(6)}
        fake = FakeManager.of({**names}, devices(A, 8), devices(A, 8, 2), devices(B, 6), devices(B, 6, 2))
        for name in fake.names:
            fake.put(name, A, rng.randrange(0, 2))
        wanted = {n: {m: rng.randrange(0, 4) for m in (A, B)} for n in fake.names if rng.random() < 0.8}
        found = survey(fake, wanted)
        if found.shortages:
            continue
        done = layout_result.carry_out(fake, found.plan, 0.0, silent)
        assert not [row for row in done["results"] if row["failed"]]
        again = survey(fake, wanted)
        assert again.plan.steps == ()
        assert again.plan.before == found.plan.after


def test_plan_as_data(fake: FakeManager) -> None:
    (uid,) = fake.put("n0", A)
    found = survey(fake, {"n0": {B: 1}}).result(9.0, 3.0)
    assert found == {
        "plan": [{"action": "detach", "machine": "uid-n0", "name": "n0", "model": A, "count": 1, "device": uid,
                  "reason": f"n0 has 1 x {A}, 0 wanted"},
                 {"action": "attach", "machine": "uid-n0", "name": "n0", "model": B, "count": 1, "device": None,
                  "reason": f"n0 has 0 x {B}, 1 wanted"}],
        "predicted_seconds": 12.0, "shortages": [], "problems": {},
        "diff": {"before": {"n0": {A: 1}}, "after": {"n0": {B: 1}}}}


def test_failed_step_is_told_and_the_others_are_done(fake: FakeManager) -> None:
    fake.fails = {"uid-n0": [Unavailable("n0 does not answer")], "uid-n1": [Refused("no")]}
    said: list[str] = []
    found = survey(fake, {"n0": {A: 1}, "n1": {A: 1}, "n2": {A: 1}})
    done = layout_result.carry_out(fake, found.plan, 0.0, said.append)
    assert [(r["name"], r["failed"], r.get("msg")) for r in done["results"]] == [
        ("n0", True, "n0 does not answer"), ("n1", True, "no"), ("n2", False, None)]
    assert (done["changed"], done["failed"], done["error"]) == (True, True, "Unavailable")
    assert done["msg"] == "n0 does not answer (2 of 3 steps failed)"
    assert [text.split(" after ")[0] for text in said] == [f"{n} of 3 steps done" for n in (1, 2, 3)]
    again = survey(fake, {"n0": {A: 1}, "n1": {A: 1}, "n2": {A: 1}})
    assert steps(again) == [(ATTACH, "n0", A, 1), (ATTACH, "n1", A, 1)]


def test_detaches_are_over_before_attaches_begin(fake: FakeManager) -> None:
    fake.put("n0", A, 4)
    layout_result.carry_out(fake, survey(fake, {"n0": {}, "n1": {A: 4}}).plan, 0.0, silent)
    assert [entry[0] for entry in fake.log] == ["detach"] * 4 + ["attach"]


def test_large_fabric_is_planned_in_one_pass() -> None:
    """Every machine moves: work that grew with the square of the fabric would not end."""
    machines = [Machine(f"uid-n{i}", f"n{i}", i % 20) for i in range(2000)]
    found = layout.plan(machines, {m.name: {A: 1} for m in machines})
    assert len(found.steps) == 2000
