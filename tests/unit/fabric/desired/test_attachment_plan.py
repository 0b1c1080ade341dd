# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wanted attachments in bulk: each has its own end, none comes twice, and check mode says what apply does."""

from __future__ import annotations

import random
import threading
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device
from ansible_collections.composable.infra.plugins.module_utils.fabric.desired import executor
from ansible_collections.composable.infra.plugins.module_utils.fabric.desired.attachment import (
    AttachmentResult,
    AttachmentSpec,
    counts,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.desired.attachment_plan import AttachmentPlan
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    BadConfiguration,
    FabricError,
    Refused,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.tests.unit.fabric.desired.fake_manager import ABLE, A, B, FakeManager, devices

LISTS = replace(ABLE, lists_free=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other at once."""
    monkeypatch.setattr(executor, "LOOK_SECONDS", 0.0)


@pytest.fixture
def fake() -> FakeManager:
    return FakeManager.of({"n0": 1, "n1": 1, "n2": 2}, devices(A, 4), devices(B, 2), devices(A, 2, 2))


def grant(fake: FakeManager, *specs: AttachmentSpec, **more: t.Any) -> list[AttachmentResult]:
    return AttachmentPlan(fake, 0.0, **more).apply(specs)


def has(fake: FakeManager, machine: str) -> list[str]:
    return sorted(d.model for d in fake.stock.values() if d.machine == f"uid-{machine}")


def test_many_specs_are_granted_in_their_order(fake: FakeManager) -> None:
    found = grant(fake, AttachmentSpec("n1", model=A, count=2), AttachmentSpec("n0", model=B), AttachmentSpec("uid-n2",
                                                                                                              model=A,
                                                                                                              count=2))
    assert [(g.machine.name if g.machine else "", g.before, g.after, len(g.devices)) for g in found] == [
        ("n1", 0, 2, 2), ("n0", 0, 1, 1), ("n2", 0, 2, 2)]
    assert (has(fake, "n0"), has(fake, "n1"), has(fake, "n2")) == ([B], [A, A], [A, A])


def test_second_time_nothing_is_asked(fake: FakeManager) -> None:
    specs = [AttachmentSpec("n0", model=A, count=2), AttachmentSpec("n1", model=B)]
    grant(fake, *specs)
    asked = len(fake.log)
    assert [g.changed for g in grant(fake, *specs)] == [False, False]
    assert len(fake.log) == asked


def test_failure_of_one_hides_no_other(fake: FakeManager) -> None:
    fake.fails["uid-n1"] = [Unavailable("n1 does not answer")]
    found = grant(fake, AttachmentSpec("n0", model=A), AttachmentSpec("n1", model=A),
                  AttachmentSpec("nobody", model=A),
                  AttachmentSpec("n2", model=A))
    assert [type(g.error).__name__ for g in found] == ["NoneType", "Unavailable", "Missing", "NoneType"]
    assert [g.changed for g in found] == [True, False, False, True]
    assert (has(fake, "n0"), has(fake, "n1"), has(fake, "n2")) == ([A], [], [A])


def test_what_is_given_back_can_be_used_at_once(fake: FakeManager) -> None:
    uids = fake.put("n0", A, 4)
    found = grant(fake, AttachmentSpec("n1", model=A), AttachmentSpec("n0", "detached", device=uids[0]))
    assert [g.error for g in found] == [None, None]
    assert [entry[0] for entry in fake.log] == ["detach", "attach"]
    assert found[0].devices[0].uid == uids[0]


def test_replacing_a_device_of_the_same_model_on_one_machine(fake: FakeManager) -> None:
    uids = fake.put("n0", A, 2)
    specs = [AttachmentSpec("n0", "detached", device=uids[0]), AttachmentSpec("n0", model=A, count=2)]
    planned = AttachmentPlan(fake, 0.0).foresee(specs)
    found = grant(fake, *specs)
    assert [(g.before, g.after) for g in planned] == [(g.before, g.after) for g in found] == [(2, 1), (1, 2)]
    assert counts(found, "before") == counts(found, "after") == {"n0": {A: 2}}
    assert len(has(fake, "n0")) == 2


def test_all_specs_are_served_at_the_same_time(fake: FakeManager, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.gate = threading.Event()
    inside = threading.Barrier(3, action=fake.gate.set)
    asked = fake._asked

    def meet(*args: t.Any) -> None:
        asked(*args)
        inside.wait(10)

    monkeypatch.setattr(fake, "_asked", meet)
    found = grant(fake, *(AttachmentSpec(n, model=A) for n in ("n0", "n1", "n2")))
    assert [g.error for g in found] == [None] * 3


def test_progress_is_told_per_spec(fake: FakeManager) -> None:
    said: list[str] = []
    grant(fake, AttachmentSpec("n0", model=A), AttachmentSpec("n1", model=A), say=said.append)
    assert [text.split(" after ")[0] for text in said] == ["1 of 2 done", "2 of 2 done"]


def test_lost_reply_is_no_second_device(fake: FakeManager, monkeypatch: pytest.MonkeyPatch) -> None:
    effect = fake.attach

    def lost(machine_uid: str, *args: t.Any, **more: t.Any) -> t.Any:
        effect(machine_uid, *args, **more)
        raise Uncertain("the reply was lost")

    monkeypatch.setattr(fake, "attach", lost)
    (found,) = grant(fake, AttachmentSpec("n0", model=A))
    assert (found.error, has(fake, "n0")) == (None, [A])


def test_lost_reply_to_a_detach_is_looked_at_before_it_is_repeated(fake: FakeManager) -> None:
    (uid,) = fake.put("n0", A)
    fake.fails["uid-n0"] = [Uncertain("lost")]
    (found,) = grant(fake, AttachmentSpec("n0", "detached", device=uid))
    assert (found.error, has(fake, "n0"), len(fake.log)) == (None, [], 2)


def test_detach_whose_replies_are_always_lost_ends(fake: FakeManager) -> None:
    (uid,) = fake.put("n0", A)
    fake.fails["uid-n0"] = [Uncertain("lost") for _unused in range(9)]
    (found,) = grant(fake, AttachmentSpec("n0", "detached", device=uid))
    assert (type(found.error), found.changed, len(fake.log)) == (Uncertain, False, 3)


def test_step_that_failed_says_how_long_it_took(fake: FakeManager) -> None:
    fake.fails["uid-n0"] = [Uncertain("lost") for _unused in range(9)]
    (found,) = AttachmentPlan(fake, 0.01).apply([AttachmentSpec("n0", model=A)])
    assert type(found.error) is Uncertain
    assert found.seconds > 0


def test_partial_success_is_counted(fake: FakeManager, monkeypatch: pytest.MonkeyPatch) -> None:
    def partly(machine_uid: str, model: str, count: int = 1, **more: t.Any) -> t.Any:
        fake.put("n0", model)
        raise Refused("the second one is ill")

    monkeypatch.setattr(fake, "attach", partly)
    (found,) = grant(fake, AttachmentSpec("n0", model=A, count=2))
    assert (found.before, found.after, found.changed, str(found.error)) == (0, 1, True, "the second one is ill")


def test_check_mode_foresees_the_refusal(fake: FakeManager) -> None:
    found = AttachmentPlan(fake, 0.0).foresee([AttachmentSpec("n0", model=A, count=3), AttachmentSpec("n1", model=A,
                                                                                                      count=2)])
    assert [g.changed for g in found] == [True, False]
    assert str(found[1].error) == (f"model: 2 x {A} would be attached to machine n1, its fabric has 1 free: "
                                   "insufficient")
    assert fake.log == []


def test_check_mode_counts_what_would_be_given_back(fake: FakeManager) -> None:
    uids = fake.put("n0", A, 4)
    specs = [AttachmentSpec("n1", model=A), AttachmentSpec("n0", "detached", device=uids[3])]
    assert [g.error for g in AttachmentPlan(fake, 0.0).foresee(specs)] == [None, None]


@pytest.mark.parametrize(("spec", "said"), [
    (AttachmentSpec("n0", "detached", where="attachments[0]."),
     "attachments[0].device is not set. State detached"),
    (AttachmentSpec("n0"), "model is not set. State attached needs a model, or a handle"),
    (AttachmentSpec("n0", model=A, count=0), "count: 0 is not allowed. It must be 1 or more, or 0 with exact"),
    (AttachmentSpec("n0", model=A, count=-1, exact=True), "count: -1 is not allowed. It must be 0 or more"),
    (AttachmentSpec("n0", handle="h", exact=True), "model is not set. State attached needs a model"),
    (AttachmentSpec("n0", "detached", model=A, device="x"), "model: 'A100 40G' is not allowed. State detached takes "
                                                            "either a device or a model"),
    (AttachmentSpec("n0", "detached", model=A, count=1), "count: 1 is not allowed. State detached leaves no device"),
    (AttachmentSpec("n0", "detached", model=A, exact=True), "count is not set. State detached leaves no"),
    (AttachmentSpec("n0", model=A, device="x"), "device: 'x' is not allowed. Only state detached takes it"),
])
def test_incomplete_spec_is_named(fake: FakeManager, spec: AttachmentSpec, said: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        grant(fake, AttachmentSpec("n1", model=A), spec)
    assert said in str(refused.value)
    assert fake.log == []


def test_two_specs_about_one_thing_are_refused(fake: FakeManager) -> None:
    with pytest.raises(BadConfiguration, match=r"A100 40G on machine uid-n0' is not allowed\. "
                       r"Name it once, not 2 times"):
        grant(fake, AttachmentSpec("n0", model=A), AttachmentSpec("uid-n0", model=A, count=2))
    assert fake.log == []


def test_device_that_is_not_on_the_machine_is_away_already(fake: FakeManager) -> None:
    assert [g.changed for g in grant(fake, AttachmentSpec("n0", "detached", device="1/A100 40G/0"))] == [False]


def test_device_that_nobody_knows_is_a_mistake_where_that_can_be_told(fake: FakeManager) -> None:
    fake.able = LISTS
    known, unknown = grant(fake, AttachmentSpec("n0", "detached", device=f"1/{A}/0"), AttachmentSpec("n0", "detached",
                                                                                                     device="x"))
    assert (known.error, known.changed) == (None, False)
    assert "device: the CDI Manager knows no device x" in str(unknown.error)


def test_unknown_model_is_named_where_that_can_be_told(fake: FakeManager) -> None:
    fake.able = LISTS
    for one in (*grant(fake, AttachmentSpec("n0", model="A100")),
                *AttachmentPlan(fake, 0.0).foresee([AttachmentSpec("n0", model="A100")])):
        assert str(one.error) == f"model: 'A100' is not allowed. It may mean {A}, {B}. Give the whole name"


@pytest.mark.parametrize("batch", [True, False])
def test_handle_instead_of_waiting(fake: FakeManager, batch: bool) -> None:
    fake.able = replace(ABLE, asynchronous=True, batch=batch)
    fake.gate = threading.Event()
    (found,) = grant(fake, AttachmentSpec("n0", model=A, count=2), wait=False)
    assert (found.changed, found.handles, found.devices) == (True, ("op-uid-n0-A100 40G",) * (1 if batch else 2), ())
    assert has(fake, "n0") == []
    fake.gate.set()
    (ended,) = grant(fake, AttachmentSpec("n0", handle=found.handles[0]))
    assert (ended.changed, ended.error) == (False, None)


def test_handles_of_an_older_release_are_read_from_one_text(fake: FakeManager) -> None:
    fake.put("n0", A, 2)
    (ended,) = grant(fake, AttachmentSpec("n0", handle="op-uid-n0-A\nop-uid-n0-B"))
    assert (ended.error, len(ended.devices)) == (None, 2)


def test_kind_that_the_manager_does_not_attach_is_refused_before_it_is_asked(fake: FakeManager) -> None:
    spec = AttachmentSpec("n0", model=A, kind="memory")
    for (one,) in (grant(fake, spec), AttachmentPlan(fake, 0.0).foresee([spec])):
        assert str(one.error) == "kind: the CDI Manager attaches no memory. Allowed are gpu"
    assert fake.log == []


def test_nothing_is_refused_beforehand_where_free_devices_are_not_counted(fake: FakeManager) -> None:
    fake.able = replace(ABLE, counts_free=False)
    (one,) = AttachmentPlan(fake, 0.0).foresee([AttachmentSpec("n0", model=A, count=99)])
    assert (one.error, one.after) == (None, 99)


def test_refusal_before_the_handle_is_told(fake: FakeManager) -> None:
    fake.able = replace(ABLE, asynchronous=True)
    fake.fails["uid-n0"] = [Refused("no")]
    (found,) = grant(fake, AttachmentSpec("n0", model=A), wait=False)
    assert (str(found.error), found.handles) == ("no", ())


def test_manager_that_answers_when_done_is_waited_for(fake: FakeManager) -> None:
    (found,) = grant(fake, AttachmentSpec("n0", model=A), wait=False)
    assert (found.handles, len(found.devices)) == ((), 1)


def test_operation_that_the_manager_forgot(fake: FakeManager) -> None:
    (found,) = grant(fake, AttachmentSpec("n0", handle="gone"))
    assert str(found.error) == "no operation gone"


def test_random_specs_are_foreseen_and_end_as_foreseen(rng: random.Random) -> None:
    for _unused in range(60):
        names = {f"n{i}": rng.choice([1, 2]) for i in range(4)}
        fake = FakeManager.of({**names}, devices(A, 4), devices(A, 4, 2), devices(B, 2))
        for name in fake.names:
            fake.put(name, A, rng.randrange(0, 2))
        specs = [AttachmentSpec(name, model=model, count=rng.randrange(1, 3), exact=rng.random() < 0.4)
                 for name in fake.names for model in (A, B) if rng.random() < 0.6]
        taken = [d for d in fake.stock.values() if d.machine and rng.random() < 0.4]
        specs += [AttachmentSpec(name, "detached", model=A) for name in fake.names
                  if rng.random() < 0.5 and not any(s.machine == name for s in specs)
                  and not any(d.machine == f"uid-{name}" for d in taken)]
        specs += [AttachmentSpec(t.cast(str, d.machine), "detached", device=d.uid) for d in taken]
        foreseen = AttachmentPlan(fake, 0.0).foresee(specs)
        if any(g.error for g in foreseen):
            continue
        granted = grant(fake, *specs)
        assert all(g.after == g.spec.count for g in granted if g.spec.exact)
        assert [(g.before, g.after, g.error) for g in granted] == [(g.before, g.after, None) for g in foreseen]
        assert {n: sum(models.values()) for n, models in counts(granted, "after").items() if models} == {
            n: sum(d.machine == f"uid-{n}" and d.model in counts(granted, "after")[n] for d in fake.stock.values())
            for n in counts(granted, "after")}


def test_every_error_class_ends_in_its_own_result(fake: FakeManager) -> None:
    errors: list[FabricError] = [Refused("r"), Unavailable("u")]
    for error in errors:
        fake.fails["uid-n0"] = [error]
        assert grant(fake, AttachmentSpec("n0", model=A))[0].error is error


def test_devices_of_a_result_are_those_that_moved(fake: FakeManager) -> None:
    old = fake.put("n0", A)
    (found,) = grant(fake, AttachmentSpec("n0", model=A, count=2))
    assert [type(d) for d in found.devices] == [Device]
    assert found.devices[0].uid not in old


def shown(results: list[AttachmentResult]) -> list[tuple[int, int, list[str]]]:
    return [(g.before, g.after, sorted(d.uid for d in g.devices)) for g in results]


@pytest.mark.parametrize(("count", "wanted"), [(None, 1), (0, 0), (2, 2), (3, 3), (4, 4)])
def test_exact_count_is_reached_from_both_sides_once(fake: FakeManager, count: int | None, wanted: int) -> None:
    fake.put("n0", A, 3)
    spec = AttachmentSpec("n0", model=A, count=count, exact=True)
    (foreseen,) = AttachmentPlan(fake, 0.0).foresee([spec])
    (first,), (again,) = grant(fake, spec), grant(fake, spec)
    assert (first.before, first.after, has(fake, "n0")) == (3, wanted, [A] * wanted)
    assert (foreseen.before, foreseen.after) == (3, wanted)
    assert (len(first.devices), first.changed, again.changed) == (abs(wanted - 3), wanted != 3, False)


def test_devices_in_bad_health_leave_first(fake: FakeManager) -> None:
    old = fake.put("n0", A, 3)
    fake.stock[old[1]] = replace(fake.stock[old[1]], health="Critical")
    fake.stock[old[2]] = replace(fake.stock[old[2]], health="Warning")
    spec = AttachmentSpec("n0", model=A, count=1, exact=True)
    foreseen = AttachmentPlan(fake, 0.0).foresee([spec])
    assert shown(grant(fake, spec)) == shown(foreseen) == [(3, 1, sorted(old[1:]))]
    assert [d.uid for d in fake.stock.values() if d.machine] == old[:1]


def test_model_is_detached_as_a_whole_once(fake: FakeManager) -> None:
    old = fake.put("n0", A, 3)
    fake.put("n0", B)
    spec = AttachmentSpec("n0", "detached", model=A)
    foreseen = AttachmentPlan(fake, 0.0).foresee([spec])
    assert shown(grant(fake, spec)) == shown(foreseen) == [(3, 0, sorted(old))]
    assert has(fake, "n0") == [B]
    assert shown(grant(fake, spec)) == [(0, 0, [])]


def test_what_a_model_gives_back_goes_elsewhere_at_once(fake: FakeManager) -> None:
    """The fabric has four, and all are attached."""
    fake.put("n0", A, 4)
    specs = [AttachmentSpec("n1", model=A, count=3), AttachmentSpec("n0", model=A, exact=True)]
    assert [g.error for g in AttachmentPlan(fake, 0.0).foresee(specs)] == [None, None]
    assert [(g.before, g.after) for g in grant(fake, *specs)] == [(0, 3), (4, 1)]


def test_exact_count_counts_on_what_another_spec_detaches(fake: FakeManager) -> None:
    old = fake.put("n0", A, 3)
    specs = [AttachmentSpec("n0", model=A, count=1, exact=True), AttachmentSpec("n0", "detached", device=old[0])]
    granted = grant(fake, *specs)
    assert [g.error for g in granted] == [None, None]
    assert (has(fake, "n0"), counts(granted, "before"), counts(granted, "after")) == (
        [A], {"n0": {A: 3}}, {"n0": {A: 1}})


def test_one_failed_detach_of_several_is_told_with_those_that_left(fake: FakeManager) -> None:
    old = fake.put("n0", A, 3)
    fake.fails["uid-n0"] = [Refused("in use")]
    (found,) = grant(fake, AttachmentSpec("n0", "detached", model=A))
    left = [uid for uid in old if fake.stock[uid].machine is None]
    assert (found.before, found.after, len(left)) == (3, 1, 2)
    assert (sorted(d.uid for d in found.devices), str(found.error)) == (sorted(left), "in use")


def test_device_and_its_model_on_one_machine_are_refused(fake: FakeManager) -> None:
    old = fake.put("n0", A, 2)
    specs = [AttachmentSpec("n0", "detached", model=A), AttachmentSpec("n0", "detached", device=old[0])]
    with pytest.raises(BadConfiguration, match=r"Its uid and its model both detach it\. Name it once"):
        grant(fake, *specs)
    assert has(fake, "n0") == [A, A]


def test_model_that_nobody_has_cannot_be_detached(fake: FakeManager) -> None:
    fake.able = LISTS
    wrong, right = grant(fake, AttachmentSpec("n0", "detached", model="A100"),
                         AttachmentSpec("n1", "detached", model=B))
    assert "model: 'A100' is not allowed. Allowed are A100 40G, A100 80G" in str(wrong.error)
    assert (right.error, right.changed) == (None, False)
