# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CM's client above the wire: one counter shared with others, batches, failures, lost replies, life after a crash."""

from __future__ import annotations

import functools
import random
import threading
import typing as t
from concurrent.futures import ThreadPoolExecutor

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Capabilities, Size
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    FabricError,
    Missing,
    Refused,
    Unauthorized,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.tests.unit.fabric.drivers.cm.fake_cm import (
    ADDING,
    MACHINE,
    MODEL,
    REMOVING,
    FakeCm,
    Item,
    connected,
)

READINGS = ("all", "complete", "harsh")
Patch = pytest.MonkeyPatch


def raising(error: FabricError) -> t.Callable[[t.Any], None]:
    def work(_call: t.Any) -> None:
        raise error

    return work


def test_capabilities_are_cms(monkeypatch: Patch) -> None:
    assert connected(FakeCm(), monkeypatch).capabilities == Capabilities(
        asynchronous=True, batch=True)


@pytest.mark.parametrize("reading", READINGS)
def test_a_device_is_waited_for_and_returned(reading: str, monkeypatch: Patch) -> None:
    fake = FakeCm(reading, [Item("old", "ADD_COMPLETE")])
    task = connected(fake, monkeypatch).attach(MACHINE, MODEL)
    (device,) = task.devices
    assert (task.done, device.uid, device.serial) == (True, "new-1", "GPU-new-1")
    assert (device.machine, device.fabric, device.health, device.state) == (MACHINE, 1, "OK", "attached")
    assert fake.posts == [{"increase_resource_count": {"spec_uuid": "spec-1", "device_count": 2}}]
    assert fake.reads >= 3


@pytest.mark.parametrize("reading", READINGS)
def test_n_at_once_share_requests_and_get_a_device_each(reading: str, monkeypatch: Patch) -> None:
    fake = FakeCm(reading, looks=3)
    manager = connected(fake, monkeypatch)
    with ThreadPoolExecutor(12) as pool:
        tasks = list(pool.map(lambda _unused: manager.attach(MACHINE, MODEL), range(12)))
    assert len({task.devices[0].uid for task in tasks}) == 12
    assert fake.made == 12
    assert len(fake.posts) < 12
    assert manager.attach(MACHINE, MODEL, 3).done
    assert len(fake.posts) < 13
    assert fake.made == 15


@pytest.mark.parametrize("reading", READINGS)
def test_devices_that_others_are_adding_are_neither_ours_nor_counted_twice(reading: str, monkeypatch: Patch) -> None:
    fake = FakeCm(reading, [Item("old", "ADD_COMPLETE")])
    fake.add("foreign", looks=6)
    (device,) = connected(fake, monkeypatch).attach(MACHINE, MODEL).devices
    assert (device.uid, fake.made) == ("new-1", 1)


def test_where_cm_counts_what_is_under_way_others_are_not_waited_for(monkeypatch: Patch) -> None:
    fake = FakeCm("all", [Item("old", "ADD_COMPLETE")])
    foreign = fake.add("foreign", looks=1000)
    assert connected(fake, monkeypatch).attach(MACHINE, MODEL).devices[0].uid == "new-1"
    assert foreign.status == ADDING


def test_others_who_never_end_leave_it_busy_and_nothing_was_asked(monkeypatch: Patch) -> None:
    fake = FakeCm("complete")
    fake.add("foreign", looks=10**9)
    with pytest.raises(Busy, match="is working for another client"):
        connected(fake, monkeypatch, attach_timeout=0.03).attach(MACHINE, MODEL)
    assert fake.posts == []


def test_never_more_than_asked_for_whatever_happens_around(monkeypatch: Patch, rng: random.Random) -> None:
    for _unused in range(15):
        fake = FakeCm(rng.choice(READINGS), looks=rng.randrange(1, 4))
        fake.items = [Item(f"old-{n}", rng.choice(["ADD_COMPLETE", "ADD_FAILED"])) for n in range(rng.randrange(3))]
        for n in range(rng.randrange(3)):
            fake.add(f"foreign-{n}", looks=rng.randrange(1, 6), end=rng.choice(["ADD_COMPLETE", "ADD_FAILED"]),
                     named=rng.random() < 0.7)
        manager = connected(fake, monkeypatch)
        wanted = rng.randrange(1, 5)
        with ThreadPoolExecutor(wanted) as pool:
            tasks = [pool.submit(manager.attach, MACHINE, MODEL) for _each in range(wanted)]
        uids = [task.result().devices[0].uid for task in tasks]
        assert fake.made == wanted
        assert sorted(uids) == sorted(f"new-{n}" for n in range(1, wanted + 1))


def test_a_failed_device_does_not_block_the_others_and_is_told_for_return(monkeypatch: Patch) -> None:
    fake = FakeCm(ends=["ADD_COMPLETE", "ADD_FAILED", "ADD_COMPLETE"])
    manager = connected(fake, monkeypatch)
    with pytest.raises(Refused, match=r"ADD_FAILED: link training. Return it") as caught:
        manager.attach(MACHINE, MODEL, 3)
    assert [d.uid for d in caught.value.devices] == ["new-1", "new-3"]
    (error,) = caught.value.errors
    assert error.device
    assert error.device.uid == "new-2"
    assert {d.uid for d in manager.machine(MACHINE).devices} == {"new-1", "new-3"}
    assert manager.attach(MACHINE, MODEL).devices[0].uid == "new-4"
    assert manager.detach(MACHINE, "new-2").done
    assert [item.uid for item in fake.items] == ["new-1", "new-3", "new-4"]


@pytest.mark.parametrize("reading", READINGS)
def test_a_failed_device_is_struck_off_whether_it_is_counted_or_not(reading: str, monkeypatch: Patch) -> None:
    fake = FakeCm(reading, [Item("a", "ADD_COMPLETE"), Item("b", "ADD_FAILED"), Item("c", "ADD_COMPLETE")])
    assert connected(fake, monkeypatch).detach(MACHINE, "b").done
    assert fake.posts[0]["remove_resources"]["devices"] == ["GPU-b"]
    assert [item.uid for item in fake.items] == ["a", "c"]


def test_a_sick_device_is_refused_with_the_device(monkeypatch: Patch) -> None:
    fake = FakeCm()

    def spoil(_call: t.Any) -> None:
        fake.items[-1].op_status = "20"

    fake.after_post = spoil
    with pytest.raises(Refused, match=r"it is Critical \(res_op_status '20'\)") as caught:
        connected(fake, monkeypatch).attach(MACHINE, MODEL)
    assert caught.value.device
    assert caught.value.device.uid == "new-1"


def test_exhausted_serves_as_many_as_are_free(monkeypatch: Patch) -> None:
    fake = FakeCm(free=2)
    with pytest.raises(Refused) as caught:
        connected(fake, monkeypatch).attach(MACHINE, MODEL, 5)
    assert caught.value.exhausted
    assert len(caught.value.devices) == 2
    assert [e.exhausted for e in caught.value.errors if isinstance(e, Refused)] == [True] * 3
    assert fake.made == 2


@pytest.mark.parametrize("left", [True, False], ids=["an earlier request took it", "it is there"])
def test_a_device_that_cm_does_not_know_is_gone_only_if_the_document_says_so(left: bool, monkeypatch: Patch) -> None:
    fake = FakeCm(items=[Item("old", "ADD_COMPLETE")])
    manager = connected(fake, monkeypatch)

    def unknown(_call: t.Any) -> None:
        if left:
            fake.items.clear()
        raise Missing("machine m-1 has no device GPU-old")

    fake.before_post = unknown
    if left:
        assert manager.detach(MACHINE, "old").done
    else:
        with pytest.raises(Missing, match="has no device"):
            manager.detach(MACHINE, "old")


def test_what_is_free_is_looked_for_again_when_a_refusal_hangs_on_it(monkeypatch: Patch) -> None:
    fake = FakeCm(free=0, failing_counts=[Unavailable("cut off"), Unavailable("no JSON")])
    with pytest.raises(Refused) as caught:
        connected(fake, monkeypatch).attach(MACHINE, MODEL)
    assert (caught.value.exhausted, fake.failing_counts) == (True, [])


def test_a_refusal_for_another_reason_is_not_exhaustion(monkeypatch: Patch) -> None:
    fake = FakeCm(before_post=raising(Refused("not licensed", code="E03")))
    with pytest.raises(Refused, match="not licensed") as caught:
        connected(fake, monkeypatch).attach(MACHINE, MODEL)
    assert (caught.value.exhausted, caught.value.code) == (False, "E03")


def test_the_limit_of_the_resspec_is_told_before_anything_is_asked(monkeypatch: Patch) -> None:
    fake = FakeCm(items=[Item("a", "ADD_COMPLETE")], most=2)
    words = r"has 1 devices of model A100. At most 2 are allowed \(max_resspec_count\)"
    with pytest.raises(Refused, match=words) as caught:
        connected(fake, monkeypatch).attach(MACHINE, MODEL, 3)
    assert [d.uid for d in caught.value.devices] == ["new-1"]


def test_an_unknown_model_is_told_with_the_known_ones(monkeypatch: Patch) -> None:
    fake = FakeCm()
    with pytest.raises(Refused, match=r"machine m-1 takes no gpu of model H100. Allowed are gpu A100$"):
        connected(fake, monkeypatch).attach(MACHINE, "H100")
    with pytest.raises(Refused, match="takes no memory of model A100"):
        connected(fake, monkeypatch).attach(MACHINE, MODEL, kind="memory")
    assert fake.posts == []


@pytest.mark.parametrize("reading", READINGS)
def test_a_reply_lost_after_the_effect_is_adopted_and_nothing_is_asked_twice(reading: str, monkeypatch: Patch) -> None:
    fake = FakeCm(reading, after_post=raising(Uncertain("lost")))
    task = connected(fake, monkeypatch).attach(MACHINE, MODEL, 2)
    assert [d.uid for d in task.devices] == ["new-1", "new-2"]
    assert len(fake.posts) == 1


def test_a_request_lost_before_the_effect_is_uncertain_and_not_repeated(monkeypatch: Patch) -> None:
    fake = FakeCm(before_post=raising(Uncertain("lost")))
    told: list[tuple[str, ...]] = []
    with pytest.raises(Uncertain, match="lost"):
        connected(fake, monkeypatch).attach(MACHINE, MODEL, started=told.append)
    assert (fake.made, told) == (0, [])


@pytest.mark.parametrize("error", [Unavailable("away"), Busy("later"), Unauthorized("who")])
def test_what_was_certainly_not_done_keeps_its_class(error: FabricError, monkeypatch: Patch) -> None:
    with pytest.raises(type(error)):
        connected(FakeCm(before_post=raising(error)), monkeypatch).attach(MACHINE, MODEL)


@pytest.mark.parametrize("error", [Unavailable("away"), Missing("gone"), Refused("no"), Unauthorized("who")])
def test_a_failing_look_after_the_request_does_not_pass_for_its_outcome(error: FabricError, monkeypatch: Patch) -> None:
    fake = FakeCm()
    fake.after_post = lambda call: fake.failing_reads.extend([error, error])
    assert connected(fake, monkeypatch).attach(MACHINE, MODEL).done


def test_a_device_that_never_arrives_is_uncertain(monkeypatch: Patch) -> None:
    fake = FakeCm(looks=10**9)
    with pytest.raises(Uncertain, match=r"is not attached after 0\.05 s. It may still happen"):
        connected(fake, monkeypatch, attach_timeout=0.05).attach(MACHINE, MODEL)


def test_one_that_is_never_listed_does_not_keep_the_others_waiting(monkeypatch: Patch) -> None:
    fake = FakeCm()

    def hide_one(_call: t.Any) -> None:
        fake.items.pop()

    fake.after_post = hide_one
    with pytest.raises(Uncertain) as caught:
        connected(fake, monkeypatch).attach(MACHINE, MODEL, 3)
    assert [d.uid for d in caught.value.devices] == ["new-1", "new-2"]


def test_a_device_without_a_name_is_waited_for_until_it_has_one(monkeypatch: Patch) -> None:
    fake = FakeCm()

    def hide(_call: t.Any) -> None:
        fake.items[-1].named = False

    fake.after_post = hide
    assert connected(fake, monkeypatch).attach(MACHINE, MODEL).devices[0].uid == "new-1"


@pytest.mark.parametrize("reading", READINGS)
def test_devices_leave_together(reading: str, monkeypatch: Patch) -> None:
    fake = FakeCm(reading, [Item(name, "ADD_COMPLETE") for name in "abcd"], looks=3)
    manager = connected(fake, monkeypatch)
    with ThreadPoolExecutor(3) as pool:
        tasks = list(pool.map(lambda uid: manager.detach(MACHINE, uid), "abc"))
    assert [task.devices[0].uid for task in tasks] == list("abc")
    assert [item.uid for item in fake.items] == ["d"]
    assert len(fake.posts) <= 3


def test_a_device_that_is_not_there_is_done_and_nothing_is_asked(monkeypatch: Patch) -> None:
    fake = FakeCm(items=[Item("a", "ADD_COMPLETE")])
    assert connected(fake, monkeypatch).detach(MACHINE, "x").done
    assert fake.posts == []


@pytest.mark.parametrize("old", [0, 1])
@pytest.mark.parametrize("good", [0, 2])
def test_a_failure_without_a_name_is_a_refusal(old: int, good: int, monkeypatch: Patch) -> None:
    fake = FakeCm("complete", [Item("old", "ADD_FAILED", named=False, reason="long ago")] * old)

    def fail(call: t.Any) -> None:
        fake.items[-1] = Item("x", "ADD_FAILED", named=False, reason="no free gpu in the pool")

    fake.after_post = fail
    with pytest.raises(Refused, match="ADD_FAILED: no free gpu in the pool") as refused:
        connected(fake, monkeypatch, attach_timeout=60.0).attach(MACHINE, MODEL, good + 1)
    assert len(refused.value.devices) == good


@pytest.mark.parametrize("reading", READINGS)
def test_a_try_after_a_failure_without_a_name_asks_for_no_more_than_is_wanted(reading: str, monkeypatch: Patch) -> None:
    """Where CM counts the failed device, a higher count could bring two in the end, and nobody can take it back."""
    fake = FakeCm(reading, [Item("here", "ADD_COMPLETE")])
    fake.after_post = lambda _call: fake.items.__setitem__(-1, Item("x", "ADD_FAILED", named=False, reason="no slot"))
    manager = connected(fake, monkeypatch)
    for _try in range(3):
        with pytest.raises(Refused, match="no slot"):
            manager.attach(MACHINE, MODEL)
    assert {body["increase_resource_count"]["device_count"] for body in fake.posts} == {2}
    assert len(fake.posts) == (1 if reading == "all" else 3)
    if reading == "all":
        with pytest.raises(Refused, match=r"failed devices without a name \(1: .*Have the administrator"):
            manager.attach(MACHINE, MODEL)


def test_two_who_detach_the_same_device_are_both_served(monkeypatch: Patch) -> None:
    fake = FakeCm(items=[Item("a", "ADD_COMPLETE")], looks=4)
    manager = connected(fake, monkeypatch)
    with ThreadPoolExecutor(2) as pool:
        assert all(task.done for task in pool.map(lambda _n: manager.detach(MACHINE, "a"), range(2)))
    assert fake.items == []


@pytest.mark.parametrize("reading", [0, 1])
def test_a_device_that_one_document_leaves_out_is_removed(reading: int, monkeypatch: Patch) -> None:
    fake = FakeCm(items=[Item("a", "ADD_COMPLETE")])
    manager = connected(fake, monkeypatch)
    document, left = fake.document, iter(range(reading, -1, -1))

    def without() -> dict[str, t.Any]:
        if next(left, None) != 0:
            return document()
        held, fake.items = fake.items, []
        try:
            return document()
        finally:
            fake.items = held

    monkeypatch.setattr(fake, "document", without)
    assert manager.detach(MACHINE, "a").done
    assert fake.items == []


def test_a_device_that_is_already_leaving_is_waited_for_only(monkeypatch: Patch) -> None:
    fake = FakeCm(items=[Item("a", REMOVING, looks=4, end="GONE")])
    assert connected(fake, monkeypatch).detach(MACHINE, "a").done
    assert fake.posts == []


def test_a_device_that_is_still_coming_is_removed_when_it_has_come(monkeypatch: Patch) -> None:
    fake = FakeCm()
    fake.add("a", looks=4)
    assert connected(fake, monkeypatch).detach(MACHINE, "a").done
    assert fake.items == []


def test_a_failed_removal_says_why_and_the_next_try_is_a_new_one(monkeypatch: Patch) -> None:
    fake = FakeCm(items=[Item("a", "ADD_COMPLETE"), Item("b", "ADD_COMPLETE")], ends=["REMOVE_FAILED"])
    manager = connected(fake, monkeypatch)
    with pytest.raises(Refused, match="cannot detach device a from machine m-1: CM reported REMOVE_FAILED: in use"):
        manager.detach(MACHINE, "a")
    assert {d.uid for d in manager.machine(MACHINE).devices} == {"a", "b"}
    assert manager.detach(MACHINE, "b").done
    assert manager.detach(MACHINE, "a").done


def test_one_that_cannot_leave_does_not_keep_the_others(monkeypatch: Patch) -> None:
    fake = FakeCm(items=[Item(name, "ADD_COMPLETE") for name in "ab"])
    refuse = {"GPU-a"}

    def judge(call: t.Any) -> None:
        if refuse & set(call.body["remove_resources"]["devices"]):
            raise Refused("device a is locked")

    fake.before_post = judge
    manager = connected(fake, monkeypatch)
    gathered = threading.Barrier(2)

    def leave(uid: str) -> FabricError | None:
        gathered.wait(10)
        try:
            manager.detach(MACHINE, uid)
        except FabricError as error:
            return error
        return None

    with ThreadPoolExecutor(2) as pool:
        errors = list(pool.map(leave, "ab"))
    assert isinstance(errors[0], Refused)
    assert errors[1] is None
    assert [item.uid for item in fake.items] == ["a"]


def test_a_removal_whose_reply_was_lost_is_seen_in_the_document(monkeypatch: Patch) -> None:
    fake = FakeCm(items=[Item("a", "ADD_COMPLETE")], after_post=raising(Uncertain("lost")))
    assert connected(fake, monkeypatch).detach(MACHINE, "a").done
    never = FakeCm(items=[Item("a", "ADD_COMPLETE")], before_post=raising(Uncertain("lost")))
    with pytest.raises(Uncertain):
        connected(never, monkeypatch).detach(MACHINE, "a")


class Crash(BaseException):
    """What a process that is killed does not survive."""


def accepted(fake: FakeCm, monkeypatch: Patch, count: int = 1, device: str | None = None) -> tuple[str, ...]:
    """The handles of an operation whose process went away as soon as CM had accepted."""
    told: list[tuple[str, ...]] = []

    def started(handles: tuple[str, ...]) -> None:
        told.append(handles)
        raise Crash

    manager = connected(fake, monkeypatch, attach_timeout=0.001)
    ask = functools.partial(manager.attach, MACHINE, MODEL, count)
    with pytest.raises(Crash):
        (functools.partial(manager.detach, MACHINE, device) if device else ask)(started=started)
    return told[0]


def test_after_a_crash_the_operation_is_waited_for_and_nothing_is_asked_again(monkeypatch: Patch) -> None:
    fake = FakeCm(items=[Item("old", "ADD_COMPLETE")], looks=30)
    handles = accepted(fake, monkeypatch, count=3)
    task = connected(fake, monkeypatch).resume(handles)
    assert [d.uid for d in task.devices] == ["new-1", "new-2", "new-3"]
    assert len(fake.posts) == 1
    each = [connected(fake, monkeypatch).resume((part,)).devices[0].uid for part in handles]
    assert each == ["new-1", "new-2", "new-3"]


def test_after_a_crash_a_failed_device_is_told_for_return(monkeypatch: Patch) -> None:
    fake = FakeCm(ends=["ADD_FAILED"], looks=30)
    handles = accepted(fake, monkeypatch)
    with pytest.raises(Refused, match="ADD_FAILED") as caught:
        connected(fake, monkeypatch).resume(handles)
    assert caught.value.device


def test_after_a_crash_a_removal_is_waited_for(monkeypatch: Patch) -> None:
    fake = FakeCm(items=[Item("a", "ADD_COMPLETE")], looks=30)
    handles = accepted(fake, monkeypatch, device="a")
    assert connected(fake, monkeypatch).resume(handles).done
    assert fake.items == []


def test_an_operation_of_which_nothing_is_seen_is_missing(monkeypatch: Patch) -> None:
    fake = FakeCm(items=[Item("a", "ADD_COMPLETE")], looks=10**9)
    added = accepted(fake, monkeypatch)
    fake.items.pop()
    with pytest.raises(Missing, match="shows nothing of it"):
        connected(fake, monkeypatch).resume(added)
    removed = accepted(fake, monkeypatch, device="a")
    fake.items[0].status = "ADD_COMPLETE"
    with pytest.raises(Missing, match="shows nothing of it"):
        connected(fake, monkeypatch).resume(removed)


@pytest.mark.parametrize("handle", ["", "x", "[]", "{}", '{"machine":"m","kind":"gpu","model":"A"}'])
def test_what_is_no_handle_is_missing(handle: str, monkeypatch: Patch) -> None:
    with pytest.raises(Missing, match="it is no handle of CM"):
        connected(FakeCm(), monkeypatch).resume((handle,))


def test_a_machine_has_its_fabric_from_fm_until_a_device_tells(monkeypatch: Patch) -> None:
    fake = FakeCm()
    manager = connected(fake, monkeypatch)
    assert (manager.machine(MACHINE).fabric, manager.machine(MACHINE).name) == (7, "node-1")
    fake.items = [Item("a", "ADD_COMPLETE"), Item("b", ADDING, looks=10**9), Item("c", REMOVING, looks=10**9)]
    machine = manager.machine(MACHINE)
    assert machine.fabric == 1
    assert {d.uid: d.state for d in machine.devices} == {"a": "attached", "c": "detaching"}
    with pytest.raises(Missing):
        manager.machine("m-2")


def test_free_and_snapshot_are_fms(monkeypatch: Patch) -> None:
    manager = connected(FakeCm(free=5), monkeypatch)
    assert manager.free(MACHINE, MODEL) == 5
    assert manager.snapshot([MODEL]).free == {(MODEL, 7): 5}


def test_sizes_are_those_of_the_node_groups_first_member(monkeypatch: Patch) -> None:
    fake = FakeCm(most=4)
    fake.replies = {
        "nodegroups": {"nodegroups": [{"uuid": "g1", "name": "one"}, {"uuid": "g2"}, {"uuid": "g3"}]},
        "nodegroups/g1": {"uuid": "g1", "mach_ids": [MACHINE, "m-9"]},
        "nodegroups/g2": {"uuid": "g2", "mach_ids": []},
        "nodegroups/g3": {"mach_ids": ["m-7"]},
    }
    found = connected(fake, monkeypatch).sizes()
    assert found == {MACHINE: {MODEL: Size(None, 4)}, "m-9": {MODEL: Size(None, 4)}}


def test_a_document_of_another_machine_is_not_believed(monkeypatch: Patch) -> None:
    fake = FakeCm(items=[Item("d1", "ADD_COMPLETE")])
    driver = connected(fake, monkeypatch)
    other = fake.document()
    other["data"]["cluster"]["machine"]["uuid"] = "m-2"
    fake.replies = {f"/machines/{MACHINE}": other}
    for call in (lambda: driver.machine(MACHINE), lambda: driver.detach(MACHINE, "d1"),
                 lambda: driver.attach(MACHINE, MODEL)):
        with pytest.raises(Unavailable, match="it is about machine m-2"):
            call()
    assert fake.posts == []
