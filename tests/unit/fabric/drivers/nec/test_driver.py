# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NEC's client above the wire: one apply at a time, both generations, failures, lost replies, life after a crash."""

from __future__ import annotations

import json
import random
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Capabilities
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    FabricError,
    Missing,
    Refused,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.tests.unit.fabric.drivers.nec.fake_nec import (
    ADAPTERS,
    CPUS,
    MODEL,
    FakeNec,
    Run,
    connected,
)

GENERATIONS = (ADAPTERS, CPUS)
Patch = pytest.MonkeyPatch


def raising(error: FabricError) -> t.Callable[[t.Any], None]:
    def work(_call: t.Any) -> None:
        raise error

    return work


def test_capabilities_are_necs(monkeypatch: Patch) -> None:
    assert connected(FakeNec(), monkeypatch).capabilities == Capabilities(
        asynchronous=True, batch=True, lists_free=True)


@pytest.mark.parametrize("keys", GENERATIONS)
def test_a_device_is_connected_to_what_the_machine_has_and_back(keys: tuple[str, str], monkeypatch: Patch) -> None:
    fake = FakeNec(keys)
    manager = connected(fake, monkeypatch)
    (device,) = manager.attach("m1", MODEL).devices
    assert (device.uid, device.model, device.kind) == ("d1", MODEL, "gpu")
    assert (device.state, device.health) == ("attached", "OK")
    assert fake.posts[0].body == {"procedures": [{
        "operationID": 1, "operation": "connect", keys[0]: fake.source("m1"), keys[1]: "d1", "dependencies": [],
    }]}
    assert fake.on == {"d1": "m1"}
    assert [d.uid for d in manager.machine("m1").devices] == ["d1"]
    assert manager.detach("m1", "d1").done
    assert fake.posts[1].body["procedures"][0]["operation"] == "disconnect"
    assert fake.on == {}


@pytest.mark.parametrize("link", [("eeio",), ("destinationFabricAdapter",), ("EEIO",)])
def test_every_spelling_of_a_link_counts(link: tuple[str, ...], monkeypatch: Patch) -> None:
    fake = FakeNec(on={"d1": "m2"}, links=link)
    manager = connected(fake, monkeypatch)
    assert manager.attach("m1", MODEL).devices[0].uid == "d2"
    assert manager.detach("m2", "d1").done
    assert fake.on == {"d2": "m1"}


def test_the_other_generations_spelling_is_tried_once_and_remembered(monkeypatch: Patch) -> None:
    fake = FakeNec(ADAPTERS)
    shown = fake.node

    class Mixed(FakeNec):
        def node(self, machine: str) -> dict[str, t.Any]:
            return shown(machine)

        def source(self, machine: str) -> str:
            return f"{machine}-eeio"

    mixed = Mixed(CPUS)
    manager = connected(mixed, monkeypatch)
    manager.attach("m1", MODEL)
    manager.attach("m1", MODEL)
    spelled = [set(call.body["procedures"][0]) & {*ADAPTERS, *CPUS} for call in mixed.posts]
    assert spelled == [set(ADAPTERS), set(CPUS), set(CPUS)]
    assert sorted(mixed.on) == ["d1", "d2"]


def test_a_body_that_neither_generation_takes_is_refused_with_the_first_words(monkeypatch: Patch) -> None:
    fake = FakeNec(before_post=raising(Refused("not valid", code="E40001")))
    with pytest.raises(Refused, match="not valid"):
        connected(fake, monkeypatch).attach("m1", MODEL)


def test_machines_and_ids_are_found_in_any_case(monkeypatch: Patch) -> None:
    manager = connected(FakeNec(), monkeypatch)
    assert manager.machine("m1").uid == "M1"
    assert manager.attach("M1", MODEL).done
    assert manager.detach("m1", "d1").done


def test_n_at_once_on_several_machines_share_applies(monkeypatch: Patch) -> None:
    fake = FakeNec(devices=[f"d{n:02}" for n in range(12)])
    manager = connected(fake, monkeypatch)
    with ThreadPoolExecutor(12) as pool:
        tasks = list(pool.map(lambda n: manager.attach(f"m{n % 2 + 1}", MODEL), range(12)))
    assert len({task.devices[0].uid for task in tasks}) == 12
    assert sorted(fake.on.values()) == ["m1"] * 6 + ["m2"] * 6
    assert len(fake.posts) < 12


def test_free_devices_are_those_that_are_found_enabled_well_and_not_connected(monkeypatch: Patch) -> None:
    fake = FakeNec(on={"d1": "m2"}, health={"d2": ("Enabled", "Warning"), "d3": ("Disabled", "OK")})
    manager = connected(fake, monkeypatch)
    assert manager.free("m1", MODEL) == 1
    found = manager.snapshot([MODEL, "H100"])
    assert found.free == {(MODEL, 1): 1, ("H100", 1): 0}
    assert {uid: len(m.devices) for uid, m in found.machines.items()} == {"M1": 0, "M2": 1}
    assert {d.uid: (d.state, d.health) for d in manager.devices()} == {
        "d1": ("attached", "OK"), "d2": ("free", "Warning"), "d3": ("free", "Unknown"), "d4": ("free", "OK"),
    }


@pytest.mark.parametrize(
    ("machine", "model", "kind", "error", "words"),
    [
        ("m9", MODEL, "gpu", Missing, "the CDI Manager knows no such machine"),
        ("m1", "H100", "gpu", Refused, "no free gpu of this model is left"),
        ("m1", MODEL, "memory", Refused, "it cannot attach kind 'memory'. Allowed are gpu"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_asked(
    machine: str, model: str, kind: str, error: type[FabricError], words: str, monkeypatch: Patch
) -> None:
    fake = FakeNec()
    with pytest.raises(error, match=words):
        connected(fake, monkeypatch).attach(machine, model, kind=kind)
    assert fake.posts == []


def test_as_many_as_are_free_are_attached(monkeypatch: Patch) -> None:
    fake = FakeNec()
    with pytest.raises(Refused) as caught:
        connected(fake, monkeypatch).attach("m1", MODEL, 6)
    assert caught.value.exhausted
    assert len(caught.value.devices) == 4


def test_while_others_apply_it_waits_and_asks_again(monkeypatch: Patch) -> None:
    fake = FakeNec()
    fake.runs["others"] = Run([], looks=1)
    posts = 0

    def end_soon(_call: t.Any) -> None:
        nonlocal posts
        posts += 1
        if posts == 4:
            fake.finish_all()

    fake.before_post = end_soon
    assert connected(fake, monkeypatch).attach("m1", MODEL).done
    assert posts == 4


def test_others_who_never_end_leave_it_busy(monkeypatch: Patch) -> None:
    fake = FakeNec()
    fake.runs["others"] = Run([], looks=1)
    with pytest.raises(Busy, match="Already running"):
        connected(fake, monkeypatch, attach_timeout=0.02).attach("m1", MODEL)


def test_a_suspended_apply_is_told_at_once(monkeypatch: Patch) -> None:
    fake = FakeNec(before_post=raising(Busy("Suspended data exist. Please resume layoutapply.", code="E40027")))
    with pytest.raises(Busy, match="Suspended data exist"):
        connected(fake, monkeypatch).attach("m1", MODEL)


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("tells_results", [False, True])
def test_a_device_that_fails_does_not_fail_the_others_for_good(
    sequential: bool, tells_results: bool, monkeypatch: Patch
) -> None:
    fake = FakeNec(bad={"d1"}, sequential=sequential, tells_results=tells_results)
    manager = connected(fake, monkeypatch)
    attached, refused = attach_all(manager.attach, 3)
    assert attached + len(refused) == 3
    assert len(refused) == (1 if tells_results or sequential else 0)
    assert all("device d1, machine m1: the layout apply ended as FAILED" in str(error) for error in refused)
    assert len(fake.on) == attached
    assert "d1" not in fake.on


def attach_all(attach: t.Callable[..., t.Any], count: int) -> tuple[int, list[FabricError]]:
    """Ask until nothing is only busy, as the engine does: how many came, and what was refused."""
    came, refused = 0, list[FabricError]()
    while came + len(refused) < count:
        try:
            came += len(attach("m1", MODEL, count - came - len(refused)).devices)
        except FabricError as error:
            came += len(error.devices)
            refused += [e for e in error.errors or (error,) if not isinstance(e, Busy)]
    return came, refused


def test_a_device_that_cannot_leave_stays_and_is_named(monkeypatch: Patch) -> None:
    fake = FakeNec(on={"d1": "m1"}, bad={"d1"}, end="CANCELED", rollback="COMPLETED")
    words = "cannot detach device d1, machine m1: the layout apply ended as CANCELED, rollback COMPLETED"
    with pytest.raises(Refused, match=words):
        connected(fake, monkeypatch).detach("m1", "d1")
    assert fake.on == {"d1": "m1"}


def test_an_apply_that_got_stuck_says_who_must_act(monkeypatch: Patch) -> None:
    fake = FakeNec(bad={"d1"}, end="SUSPENDED")
    with pytest.raises(Refused, match="Resume or cancel it at the CDI Manager"):
        connected(fake, monkeypatch).attach("m1", MODEL)


def test_a_rollback_is_waited_for(monkeypatch: Patch) -> None:
    looks = 0

    class Rolling(FakeNec):
        def _progress(self, uid: str) -> t.Any:
            nonlocal looks
            looks += 1
            if looks == 6:
                self.runs[uid].rollback = "COMPLETED"
            return super()._progress(uid)

    rolling = Rolling(bad={"d1"}, end="CANCELED", rollback="IN_PROGRESS", tells_results=False)
    with pytest.raises(Refused, match="CANCELED, rollback COMPLETED"):
        connected(rolling, monkeypatch).attach("m1", MODEL)
    assert looks >= 6


def test_a_device_that_came_up_sick_is_told_for_return(monkeypatch: Patch) -> None:
    fake = FakeNec()
    fake.after_post = lambda call: fake.health.update(d1=("Enabled", "Critical"))
    with pytest.raises(Refused, match="Return it") as caught:
        connected(fake, monkeypatch).attach("m1", MODEL)
    assert caught.value.device
    assert (caught.value.device.uid, caught.value.device.machine) == ("d1", "m1")


@pytest.mark.parametrize("lists", [True, False])
def test_a_reply_lost_after_the_effect_is_adopted_and_nothing_is_asked_twice(lists: bool, monkeypatch: Patch) -> None:
    fake = FakeNec(lists=lists)

    def lose(_call: t.Any) -> None:
        if not lists:
            fake.finish_all()
        raise Uncertain("lost")

    fake.after_post = lose
    told: list[tuple[str, ...]] = []
    task = connected(fake, monkeypatch).attach("m1", MODEL, 2, started=told.append)
    assert sorted(d.uid for d in task.devices) == ["d1", "d2"]
    assert len(fake.posts) == 1
    assert json.loads(told[0][0])["apply"] == ("apply-0" if lists else "")


def test_an_apply_is_found_on_a_later_page_of_the_list(monkeypatch: Patch) -> None:
    """Where the clock of CDIM was set back the newest apply is not on the first page."""
    fake = FakeNec(runs={f"old-{n}": Run([], 0, done=True) for n in range(45)}, looks=8)

    def lose(_call: t.Any) -> None:
        raise Uncertain("lost")

    fake.after_post = lose
    told: list[tuple[str, ...]] = []
    connected(fake, monkeypatch).attach("m1", MODEL, started=told.append)
    assert (len(fake.posts), json.loads(told[0][0])["apply"]) == (1, "apply-45")


def test_a_request_lost_before_the_effect_is_uncertain_and_not_repeated(monkeypatch: Patch) -> None:
    asked = 0

    def lose(_call: t.Any) -> None:
        nonlocal asked
        asked += 1
        raise Uncertain("lost")

    fake = FakeNec(before_post=lose)
    with pytest.raises(Uncertain, match="lost"):
        connected(fake, monkeypatch).attach("m1", MODEL)
    assert (asked, fake.on) == (1, {})


@pytest.mark.parametrize("error", [Unavailable("away"), Refused("no"), Uncertain("x")])
def test_a_failing_look_after_the_request_does_not_pass_for_its_outcome(error: FabricError, monkeypatch: Patch) -> None:
    fake = FakeNec()
    fake.after_post = lambda call: fake.failing.extend([error, error])
    assert connected(fake, monkeypatch).attach("m1", MODEL).done


def test_an_apply_that_takes_too_long_is_uncertain(monkeypatch: Patch) -> None:
    fake = FakeNec(looks=10**9)
    with pytest.raises(Uncertain, match=r"layout apply apply-0 is not done after 0\.05 s"):
        connected(fake, monkeypatch, attach_timeout=0.05).attach("m1", MODEL)


def test_an_apply_that_cdim_forgot_is_judged_by_the_device(monkeypatch: Patch) -> None:
    for done in (True, False):
        fake = FakeNec()

        def forget(_call: t.Any, fake: FakeNec = fake, done: bool = done) -> None:
            if done:
                fake.finish_all()
            fake.runs.clear()

        fake.after_post = forget
        manager = connected(fake, monkeypatch)
        if done:
            assert manager.attach("m1", MODEL).devices[0].uid == "d1"
        else:
            with pytest.raises(Uncertain, match="the CDI Manager no longer knows the layout apply for device d1"):
                manager.attach("m1", MODEL)


def test_detaching_what_is_elsewhere_or_nowhere_is_done(monkeypatch: Patch) -> None:
    fake = FakeNec(on={"d1": "m2"})
    manager = connected(fake, monkeypatch)
    for uid in ("d1", "d2", "d9"):
        assert manager.detach("m1", uid).done
    assert (fake.posts, fake.on) == ([], {"d1": "m2"})


def test_a_device_that_one_layout_leaves_out_is_disconnected(monkeypatch: Patch) -> None:
    fake = FakeNec(on={"d1": "m1"})
    manager = connected(fake, monkeypatch)
    seen = manager._applier._look
    looks = iter([replace(layout, parts={}) if n == 0 else layout for n, layout in enumerate([seen(), seen()])])
    monkeypatch.setattr(manager._applier, "_look", lambda: next(looks, None) or seen())
    assert manager.detach("m1", "d1").done
    assert fake.on == {}


class Crash(BaseException):
    """What a process that is killed does not survive."""


def accepted(fake: FakeNec, monkeypatch: Patch) -> tuple[str, ...]:
    """The handles of an attach whose process went away as soon as CDIM had accepted."""
    told: list[tuple[str, ...]] = []

    def started(handles: tuple[str, ...]) -> None:
        told.append(handles)
        raise Crash

    with pytest.raises(Crash):
        connected(fake, monkeypatch, attach_timeout=0.001).attach("m1", MODEL, 2, started=started)
    return told[0]


def test_after_a_crash_the_apply_is_waited_for_and_nothing_is_asked_again(monkeypatch: Patch) -> None:
    fake = FakeNec(looks=30)
    handles = accepted(fake, monkeypatch)
    task = connected(fake, monkeypatch).resume(handles)
    assert [d.uid for d in task.devices] == ["d1", "d2"]
    assert len(fake.posts) == 1


def test_after_a_crash_a_failed_step_is_refused_by_itself(monkeypatch: Patch) -> None:
    fake = FakeNec(looks=30, bad={"d2"})
    with pytest.raises(Refused, match="device d2") as caught:
        connected(fake, monkeypatch).resume(accepted(fake, monkeypatch))
    assert [d.uid for d in caught.value.devices] == ["d1"]


@pytest.mark.parametrize("on", [{}, {"d2": "m1"}, {"d1": "m2", "d2": "m1"}])
def test_after_a_crash_a_device_that_has_been_moved_since_is_not_told(on: dict[str, str], monkeypatch: Patch) -> None:
    """The apply is done; what it connected may be another machine's by now."""
    fake = FakeNec(looks=2)
    handles = accepted(fake, monkeypatch)
    fake.finish_all()
    fake.on = on
    with pytest.raises(Missing, match="device d1 is not on machine m1") as caught:
        connected(fake, monkeypatch).resume(handles)
    assert [d.uid for d in caught.value.devices] == (["d2"] if "d2" in on else [])


@pytest.mark.parametrize("number", [1, 2])
def test_a_device_that_another_client_has_just_taken_is_no_refusal(number: int, monkeypatch: Patch) -> None:
    """The apply that names it fails; the next names another device."""
    fake = FakeNec()
    theirs = [f"d{n}" for n in range(1, number + 1)]
    fake.before_post = lambda _call: fake.on.update({theirs.pop(0): "m2"} if theirs else {})
    (device,) = connected(fake, monkeypatch).attach("m1", MODEL).devices
    assert device.uid == f"d{number + 1}"
    assert fake.on[device.uid] == "m1"


def test_when_other_clients_have_taken_all_none_is_left(monkeypatch: Patch) -> None:
    fake = FakeNec(devices=["d1"])
    fake.before_post = lambda _call: fake.on.update({"d1": "m2"})
    with pytest.raises(Refused, match="no free gpu") as refused:
        connected(fake, monkeypatch).attach("m1", MODEL)
    assert refused.value.exhausted


def test_after_a_crash_an_apply_that_is_gone_is_judged_by_the_device(monkeypatch: Patch) -> None:
    fake = FakeNec(looks=10**9)
    handles = accepted(fake, monkeypatch)
    fake.runs.clear()
    with pytest.raises(Missing, match="the CDI Manager shows neither it nor its effect"):
        connected(fake, monkeypatch).resume(handles)
    fake.on = {"d1": "m1", "d2": "m1"}
    assert [d.uid for d in connected(fake, monkeypatch).resume(handles).devices] == ["d1", "d2"]


def test_a_wait_after_a_crash_has_an_end(monkeypatch: Patch) -> None:
    fake = FakeNec(looks=10**9)
    handles = accepted(fake, monkeypatch)
    with pytest.raises(Uncertain, match="is not done after"):
        connected(fake, monkeypatch, attach_timeout=0.02).resume(handles)


@pytest.mark.parametrize("handle", ["", "x", "[]", "{}", '{"apply":"1"}'])
def test_what_is_no_handle_is_missing(handle: str, monkeypatch: Patch) -> None:
    with pytest.raises(Missing, match="it is no handle of NEC CDIM"):
        connected(FakeNec(), monkeypatch).resume((handle,))


def test_random_work_never_connects_twice_and_leaves_nothing(monkeypatch: Patch, rng: random.Random) -> None:
    for _unused in range(10):
        fake = FakeNec(rng.choice(GENERATIONS), [f"d{n}" for n in range(6)], looks=rng.randrange(1, 4))
        manager = connected(fake, monkeypatch)
        with ThreadPoolExecutor(6) as pool:
            tasks = [pool.submit(manager.attach, rng.choice(["m1", "m2"]), MODEL) for _each in range(6)]
        devices = [task.result().devices[0] for task in tasks]
        assert len({d.uid for d in devices}) == 6
        with ThreadPoolExecutor(6) as pool:
            leaving = [pool.submit(manager.detach, str(d.machine), d.uid) for d in devices]
        assert all(task.result().done for task in leaving)
        assert fake.on == {}
