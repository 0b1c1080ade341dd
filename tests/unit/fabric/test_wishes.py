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

from ansible_collections.composable.infra.plugins.module_utils.fabric import ensure
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    BadConfiguration,
    FabricError,
    Refused,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.types import Device
from ansible_collections.composable.infra.plugins.module_utils.fabric.wish import Granted, Wish, counts
from ansible_collections.composable.infra.plugins.module_utils.fabric.wishes import Wishes
from ansible_collections.composable.infra.tests.unit.fabric.shelf import ABLE, A, B, Shelf, devices

LISTS = replace(ABLE, lists_free=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other at once."""
    monkeypatch.setattr(ensure, "LOOK_SECONDS", 0.0)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf.of({"n0": 1, "n1": 1, "n2": 2}, devices(A, 4), devices(B, 2), devices(A, 2, 2))


def grant(shelf: Shelf, *wishes: Wish, **more: t.Any) -> list[Granted]:
    return Wishes(shelf, 0.0, **more).grant(wishes)


def has(shelf: Shelf, machine: str) -> list[str]:
    return sorted(d.model for d in shelf.stock.values() if d.machine == f"uid-{machine}")


def test_many_wishes_are_granted_in_their_order(shelf: Shelf) -> None:
    found = grant(shelf, Wish("n1", model=A, count=2), Wish("n0", model=B), Wish("uid-n2", model=A, count=2))
    assert [(g.machine.name if g.machine else "", g.before, g.after, len(g.devices)) for g in found] == [
        ("n1", 0, 2, 2), ("n0", 0, 1, 1), ("n2", 0, 2, 2)]
    assert (has(shelf, "n0"), has(shelf, "n1"), has(shelf, "n2")) == ([B], [A, A], [A, A])


def test_second_time_nothing_is_asked(shelf: Shelf) -> None:
    wishes = [Wish("n0", model=A, count=2), Wish("n1", model=B)]
    grant(shelf, *wishes)
    asked = len(shelf.log)
    assert [g.changed for g in grant(shelf, *wishes)] == [False, False]
    assert len(shelf.log) == asked


def test_failure_of_one_hides_no_other(shelf: Shelf) -> None:
    shelf.fails["uid-n1"] = [Unavailable("n1 does not answer")]
    found = grant(shelf, Wish("n0", model=A), Wish("n1", model=A), Wish("nobody", model=A), Wish("n2", model=A))
    assert [type(g.error).__name__ for g in found] == ["NoneType", "Unavailable", "Missing", "NoneType"]
    assert [g.changed for g in found] == [True, False, False, True]
    assert (has(shelf, "n0"), has(shelf, "n1"), has(shelf, "n2")) == ([A], [], [A])


def test_what_is_given_back_can_be_used_at_once(shelf: Shelf) -> None:
    uids = shelf.put("n0", A, 4)
    found = grant(shelf, Wish("n1", model=A), Wish("n0", "detached", device=uids[0]))
    assert [g.error for g in found] == [None, None]
    assert [entry[0] for entry in shelf.log] == ["detach", "attach"]
    assert found[0].devices[0].uid == uids[0]


def test_replacing_a_device_of_the_same_model_on_one_machine(shelf: Shelf) -> None:
    uids = shelf.put("n0", A, 2)
    wishes = [Wish("n0", "detached", device=uids[0]), Wish("n0", model=A, count=2)]
    planned = Wishes(shelf, 0.0).foresee(wishes)
    found = grant(shelf, *wishes)
    assert [(g.before, g.after) for g in planned] == [(g.before, g.after) for g in found] == [(2, 1), (1, 2)]
    assert counts(found, "before") == counts(found, "after") == {"n0": {A: 2}}
    assert len(has(shelf, "n0")) == 2


def test_all_wishes_are_served_at_the_same_time(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.gate = threading.Event()
    inside = threading.Barrier(3, action=shelf.gate.set)
    asked = shelf._asked

    def meet(*args: t.Any) -> None:
        asked(*args)
        inside.wait(10)

    monkeypatch.setattr(shelf, "_asked", meet)
    found = grant(shelf, *(Wish(n, model=A) for n in ("n0", "n1", "n2")))
    assert [g.error for g in found] == [None] * 3


def test_progress_is_told_per_wish(shelf: Shelf) -> None:
    said: list[str] = []
    grant(shelf, Wish("n0", model=A), Wish("n1", model=A), say=said.append)
    assert [text.split(" after ")[0] for text in said] == ["1 of 2 done", "2 of 2 done"]


def test_lost_reply_is_no_second_device(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    effect = shelf.attach

    def lost(machine_uid: str, *args: t.Any, **more: t.Any) -> t.Any:
        effect(machine_uid, *args, **more)
        raise Uncertain("the reply was lost")

    monkeypatch.setattr(shelf, "attach", lost)
    (found,) = grant(shelf, Wish("n0", model=A))
    assert (found.error, has(shelf, "n0")) == (None, [A])


def test_lost_reply_to_a_detach_is_looked_at_before_it_is_repeated(shelf: Shelf) -> None:
    (uid,) = shelf.put("n0", A)
    shelf.fails["uid-n0"] = [Uncertain("lost")]
    (found,) = grant(shelf, Wish("n0", "detached", device=uid))
    assert (found.error, has(shelf, "n0"), len(shelf.log)) == (None, [], 2)


def test_detach_whose_replies_are_always_lost_ends(shelf: Shelf) -> None:
    (uid,) = shelf.put("n0", A)
    shelf.fails["uid-n0"] = [Uncertain("lost") for _unused in range(9)]
    (found,) = grant(shelf, Wish("n0", "detached", device=uid))
    assert (type(found.error), found.changed, len(shelf.log)) == (Uncertain, False, 3)


def test_partial_success_is_counted(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def partly(machine_uid: str, model: str, count: int = 1, **more: t.Any) -> t.Any:
        shelf.put("n0", model)
        raise Refused("the second one is ill")

    monkeypatch.setattr(shelf, "attach", partly)
    (found,) = grant(shelf, Wish("n0", model=A, count=2))
    assert (found.before, found.after, found.changed, str(found.error)) == (0, 1, True, "the second one is ill")


def test_check_mode_foresees_the_refusal(shelf: Shelf) -> None:
    found = Wishes(shelf, 0.0).foresee([Wish("n0", model=A, count=3), Wish("n1", model=A, count=2)])
    assert [g.changed for g in found] == [True, False]
    assert str(found[1].error) == (f"model: 2 x {A} would be attached to machine n1, its fabric has 1 free: "
                                   "insufficient")
    assert shelf.log == []


def test_check_mode_counts_what_would_be_given_back(shelf: Shelf) -> None:
    uids = shelf.put("n0", A, 4)
    wishes = [Wish("n1", model=A), Wish("n0", "detached", device=uids[3])]
    assert [g.error for g in Wishes(shelf, 0.0).foresee(wishes)] == [None, None]


@pytest.mark.parametrize(("wish", "said"), [
    (Wish("n0", "detached", where="attachments[0]."), "attachments[0].device: None is not allowed; state detached"),
    (Wish("n0"), "model: None is not allowed; state attached needs a model, or a handle"),
    (Wish("n0", model=A, count=0), "count: 0 is not allowed; it must be 1 or more"),
    (Wish("n0", model=A, device="x"), "device: 'x' is not allowed; only state detached takes it"),
])
def test_incomplete_wish_is_named(shelf: Shelf, wish: Wish, said: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        grant(shelf, Wish("n1", model=A), wish)
    assert said in str(refused.value)
    assert shelf.log == []


def test_two_wishes_about_one_thing_are_refused(shelf: Shelf) -> None:
    with pytest.raises(BadConfiguration, match="A100 40G on machine uid-n0' is not allowed; name it once, not 2 times"):
        grant(shelf, Wish("n0", model=A), Wish("uid-n0", model=A, count=2))
    assert shelf.log == []


def test_device_that_is_not_on_the_machine_is_away_already(shelf: Shelf) -> None:
    assert [g.changed for g in grant(shelf, Wish("n0", "detached", device="1/A100 40G/0"))] == [False]


def test_device_that_nobody_knows_is_a_mistake_where_that_can_be_told(shelf: Shelf) -> None:
    shelf.able = LISTS
    known, unknown = grant(shelf, Wish("n0", "detached", device=f"1/{A}/0"), Wish("n0", "detached", device="x"))
    assert (known.error, known.changed) == (None, False)
    assert "device: the CDI Manager knows no device x" in str(unknown.error)


def test_unknown_model_is_named_where_that_can_be_told(shelf: Shelf) -> None:
    shelf.able = LISTS
    for one in (*grant(shelf, Wish("n0", model="A100")), *Wishes(shelf, 0.0).foresee([Wish("n0", model="A100")])):
        assert str(one.error) == f"model: 'A100' is not allowed; it may mean {A}, {B}; give the whole name"


@pytest.mark.parametrize("batch", [True, False])
def test_handle_instead_of_waiting(shelf: Shelf, batch: bool) -> None:
    shelf.able = replace(ABLE, asynchronous=True, batch=batch)
    shelf.gate = threading.Event()
    (found,) = grant(shelf, Wish("n0", model=A, count=2), wait=False)
    assert (found.changed, found.handles, found.devices) == (True, ("op-uid-n0-A100 40G",) * (1 if batch else 2), ())
    assert has(shelf, "n0") == []
    shelf.gate.set()
    (ended,) = grant(shelf, Wish("n0", handle=found.handles[0]))
    assert (ended.changed, ended.error) == (False, None)


def test_refusal_before_the_handle_is_told(shelf: Shelf) -> None:
    shelf.able = replace(ABLE, asynchronous=True)
    shelf.fails["uid-n0"] = [Refused("no")]
    (found,) = grant(shelf, Wish("n0", model=A), wait=False)
    assert (str(found.error), found.handles) == ("no", ())


def test_manager_that_answers_when_done_is_waited_for(shelf: Shelf) -> None:
    (found,) = grant(shelf, Wish("n0", model=A), wait=False)
    assert (found.handles, len(found.devices)) == ((), 1)


def test_operation_that_the_manager_forgot(shelf: Shelf) -> None:
    (found,) = grant(shelf, Wish("n0", handle="gone"))
    assert str(found.error) == "no operation gone"


def test_random_wishes_are_foreseen_and_end_as_foreseen(rng: random.Random) -> None:
    for _unused in range(60):
        names = {f"n{i}": rng.choice([1, 2]) for i in range(4)}
        shelf = Shelf.of({**names}, devices(A, 4), devices(A, 4, 2), devices(B, 2))
        for name in shelf.names:
            shelf.put(name, A, rng.randrange(0, 2))
        wishes = [Wish(name, model=model, count=rng.randrange(1, 3)) for name in shelf.names for model in (A, B)
                  if rng.random() < 0.6]
        taken = [d for d in shelf.stock.values() if d.machine and rng.random() < 0.4]
        wishes += [Wish(t.cast(str, d.machine), "detached", device=d.uid) for d in taken]
        foreseen = Wishes(shelf, 0.0).foresee(wishes)
        if any(g.error for g in foreseen):
            continue
        granted = grant(shelf, *wishes)
        assert [(g.before, g.after, g.error) for g in granted] == [(g.before, g.after, None) for g in foreseen]
        assert {n: sum(models.values()) for n, models in counts(granted, "after").items() if models} == {
            n: sum(d.machine == f"uid-{n}" and d.model in counts(granted, "after")[n] for d in shelf.stock.values())
            for n in counts(granted, "after")}


def test_every_error_class_ends_in_its_own_result(shelf: Shelf) -> None:
    errors: list[FabricError] = [Refused("r"), Unavailable("u")]
    for error in errors:
        shelf.fails["uid-n0"] = [error]
        assert grant(shelf, Wish("n0", model=A))[0].error is error


def test_devices_of_a_result_are_those_that_moved(shelf: Shelf) -> None:
    old = shelf.put("n0", A)
    (found,) = grant(shelf, Wish("n0", model=A, count=2))
    assert [type(d) for d in found.devices] == [Device]
    assert found.devices[0].uid not in old
