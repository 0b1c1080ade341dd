# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Usage is exact to the claim's allocation, over restarts, changes of the leader and lost writes."""

from __future__ import annotations

import base64
import json
import random
import threading
import tracemalloc
import typing as t
import zlib

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    CONFIG_MAPS,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import NotLeading, Unreachable
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_micro_time, format_time
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting import sums
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.sums import NAME, Sum
from ansible_collections.composable.infra.plugins.module_utils.reconcile.accounting import keeper
from ansible_collections.composable.infra.plugins.module_utils.reconcile.accounting.uses import (
    ANNOTATION,
    Attachment,
    Use,
)
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.accounting.accounting_support import (
    NAMESPACE,
    NOW,
    Process,
    World,
    by_namespace,
)


@pytest.fixture
def world() -> World:
    """A cluster without devices."""
    return World()


def attached(world: World, *devices: str) -> None:
    """Devices come to the node a second later."""
    world.now += 1
    for device in devices:
        world.device(f"r-{device}", "")
        world.device(f"r-{device}", device)
    world.show(*devices)


def test_used_and_idle_time_are_all_of_the_attached_time(world: World) -> None:
    process = world.process()
    attached(world, "a")
    world.now += 10
    world.claim("train", "gpu-0")
    process.keeper.update()
    world.now += 100
    world.remove(CLAIMS, "train", "default")
    world.now += 7
    assert process.sums() == {"": Sum(idle=17.0, attaches=1), "default": Sum(used=100.0)}


def test_times_are_those_of_the_events_not_those_of_the_reading(world: World) -> None:
    process = world.process()
    attached(world, "a")
    world.claim("one", "gpu-0")
    process.keeper.update()
    world.now += 10
    world.remove(CLAIMS, "one", "default")
    world.now += 0.5
    world.claim("two", namespace="other")
    world.claim("two", "gpu-0", namespace="other")
    world.now += 0.4
    assert process.sums() == {"default": Sum(used=10.0), "": Sum(idle=0.5, attaches=1), "other": Sum(used=0.4)}


def test_pool_that_changes_has_no_node_read_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool changes with each attached device."""
    process, read = world.process(), list[str]()
    attached(world, "a")
    process.keeper.update()
    monkeypatch.setattr(process.ledger, "read", read.append)
    world.put(SLICES, objects.pool_slice("a100-0"))
    process.ledger.update()
    assert read == []
    world.put(SLICES, objects.local_slice("GPU-a"))
    process.ledger.update()
    assert read == ["node-0"]


def test_device_counts_from_its_attach_until_it_leaves(world: World) -> None:
    process = world.process()
    world.device("r-a", "", meant="team")
    process.keeper.update()
    world.now += 30
    world.device("r-a", "a")
    world.now += 50
    process.keeper.update()
    world.device("r-a", "")
    world.now += 20
    assert process.sums() == {"": Sum(idle=50.0), "team": Sum(attaches=1)}


def test_plugin_that_restarts_ends_no_use(world: World) -> None:
    process = world.process()
    attached(world, "a")
    world.claim("train", "gpu-0")
    process.keeper.update()
    world.now += 10
    world.remove(SLICES, "slice-node-0")
    process.keeper.update()
    world.now += 10
    world.show("a")
    world.now += 10
    assert process.sums()["default"] == Sum(used=30.0)


def test_claim_that_moves_to_another_device_is_counted_there(world: World) -> None:
    process = world.process()
    attached(world, "a", "b")
    world.claim("train", "gpu-0")
    process.keeper.update()
    world.now += 10
    world.claim("train", "gpu-1")
    world.now += 5
    assert process.sums() == {"default": Sum(used=15.0), "": Sum(idle=15.0, attaches=2)}


def test_next_process_goes_on_from_the_stored_sums(world: World) -> None:
    first = world.process()
    attached(world, "a")
    world.claim("train", "gpu-0")
    first.keeper.update()
    first.touch("r-a", in_use=True)
    world.now += 60
    first.keeper.keep()
    world.processes.clear()  # it is killed
    world.now += 40
    second = world.process()
    world.now += 20
    assert second.sums()["default"] == Sum(used=120.0)
    second.keeper.keep()
    assert second.sums()["default"] == Sum(used=120.0)
    assert by_namespace(second.keeper.known().table)[""].attaches == 1


def test_use_that_ended_after_the_last_stored_sums_is_counted_by_the_next_process(world: World) -> None:
    first = world.process()
    attached(world, "a")
    first.keeper.keep()
    world.claim("train", "gpu-0")
    first.keeper.update()
    world.now += 25
    world.remove(CLAIMS, "train", "default")
    first.touch("r-a", in_use=False)
    world.processes.clear()
    world.now += 5
    assert world.process().sums() == {"default": Sum(used=25.0), "": Sum(idle=5.0, attaches=1)}


def test_process_that_stands_by_knows_the_end_that_the_leader_did_not_write(world: World) -> None:
    leader, standby = world.process(), world.process()
    attached(world, "a")
    world.claim("train", "gpu-0")
    leader.keeper.update()
    standby.keeper.update()
    leader.touch("r-a", in_use=True)
    world.now += 25
    world.remove(CLAIMS, "train", "default")
    world.processes.remove(leader)
    world.now += 100
    assert standby.sums() == {"default": Sum(used=25.0), "": Sum(idle=100.0, attaches=1)}
    standby.keeper.keep()
    assert standby.sums()["default"] == Sum(used=25.0)


def test_use_of_which_no_leader_wrote_a_note_is_noted_before_the_device_is_hidden(world: World) -> None:
    """The next process cannot know whose device it was, when no slice lists it any more."""
    leader, standby = world.process(), world.process()
    attached(world, "a")
    leader.keeper.keep()
    world.claim("train", "gpu-0")
    world.processes.remove(leader)  # it is killed before it writes that the device is in use
    standby.keeper.update()
    world.now += 25
    world.remove(CLAIMS, "train", "default")
    standby.writer.resources.ask_release("r-a")
    world.show()
    third = world.process()
    world.processes.remove(standby)
    world.now += 5
    assert third.sums() == {"default": Sum(used=25.0), "": Sum(idle=5.0, attaches=1)}


@pytest.fixture
def new_leader(world: World) -> Process:
    """A process that leads and does not count yet. The claim of device a ended after the last stored sums."""
    old = world.process()
    attached(world, "a")
    world.claim("train", "gpu-0")
    old.keeper.update()
    old.touch("r-a", in_use=True)
    old.keeper.keep()
    new = world.process(counts=False)
    world.processes.remove(old)
    world.now += 25
    world.remove(CLAIMS, "train", "default")
    return new


def test_note_of_a_device_is_not_deleted_before_the_process_counts(world: World, new_leader: Process) -> None:
    world.device("r-a", "")

    def finished() -> None:
        new_leader.writer.resources.finish("r-a")
        world.remove(COMPOSABLE_RESOURCES, "r-a")

    finish = threading.Thread(target=finished)
    finish.start()
    finish.join(0.2)
    assert finish.is_alive()
    new_leader.keeper.begin()
    finish.join(10)
    assert new_leader.sums()["default"].used == world.process().sums()["default"].used == 25.0


def test_device_is_released_if_counting_does_not_begin(
        world: World, new_leader: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "BEGIN_SECONDS", 0.01)
    world.device("r-a", "")
    new_leader.writer.resources.finish("r-a")
    assert not world.api.one(COMPOSABLE_RESOURCES, "r-a")["metadata"].get("finalizers")


def test_process_that_does_not_count_yet_tells_the_stored_sums(world: World, new_leader: Process) -> None:
    known = new_leader.keeper.known()
    assert (known.until, by_namespace(known.table)) == (world.now - 25, {"": Sum(attaches=1)})


Event = tuple[str, str, int, tuple[str, ...]]
"""Kind, claim, seconds since the world began, and devices."""


@pytest.fixture
def killed(world: World, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., Process]:
    """A process stored sums after 61 s and was killed. The claim ended 25 s later, and the next process starts 125 s
    after the sums.

    Call it with the changes of claims that the API server remembers, or with its error. An agent's Lease was renewed
    every two seconds.
    """
    def after(answer: list[Event] | BaseException) -> Process:
        def text(path: str) -> str:
            if isinstance(answer, BaseException):
                raise answer
            first = int(path.partition("resourceVersion=")[2].partition("&")[0])

            def version(at: float) -> str:
                return str(first + round((at - 61) * 1000))

            if "/leases?" in path:
                told = [{"type": "MODIFIED", "object": {
                    "metadata": {"resourceVersion": version(at)}, "spec": {"renewTime": format_micro_time(NOW + at)}}}
                    for at in range(62, 186, 2)]
            else:
                told = []
                for kind, name, at, devices in answer:
                    raw = objects.claim(name, *(objects.local_result(device) for device in devices))
                    raw["metadata"] |= {"uid": f"uid-default-{name}", "resourceVersion": version(at)}
                    wrote = at if devices or kind == "ADDED" else 1
                    raw["metadata"]["managedFields"] = [{"time": format_time(NOW + wrote)}]
                    told.append({"type": kind, "object": raw})
            return "\n".join(map(json.dumps, told))

        monkeypatch.setattr(world.api, "text", text)
        first = world.process()
        attached(world, "a")
        world.claim("train", "gpu-0")
        first.keeper.update()
        first.touch("r-a", in_use=True)
        world.now += 60
        first.keeper.keep()
        world.processes.clear()
        world.now += 25
        world.remove(CLAIMS, "train", "default")
        world.now += 100
        return world.process()

    return after


def test_end_that_no_process_saw_is_between_two_renewals_of_a_lease(
        world: World, killed: t.Callable[..., Process]) -> None:
    process = killed([("MODIFIED", "other", 70, ()), ("MODIFIED", "train", 87, ())])
    assert process.sums()["default"] == Sum(used=86.0)
    assert process.keeper.known().uncertain == 1.0


def test_claim_that_came_and_went_while_no_process_ran_is_counted(
        world: World, killed: t.Callable[..., Process]) -> None:
    process = killed([("MODIFIED", "train", 81, ()), ("ADDED", "short", 90, ()), ("MODIFIED", "short", 95, ("gpu-0",)),
                      ("MODIFIED", "short", 97, ("gpu-0",)), ("MODIFIED", "short", 121, ()),
                      ("DELETED", "short", 122, ())])
    uses = process.ledger._nodes["node-0"]["r-a"].uses
    assert [(use.name, use.began - NOW, use.ended - NOW) for use in uses] == [
        ("train", 1.0, 81.0), ("short", 95.5, 121.0)]
    assert process.keeper.known().uncertain == 2.0


def test_claim_that_the_last_process_counted_to_its_end_is_not_counted_on(
        world: World, killed: t.Callable[..., Process]) -> None:
    """The stored sums have the end, but the note of the ComposableResource was not written any more."""
    process = killed([])
    world.claim("next", "gpu-0", namespace="other")
    world.now += 5
    assert process.sums()["default"] == Sum(used=60.0)
    assert process.keeper.known().uncertain == 0.0


@pytest.mark.parametrize("answer", [Unreachable("gone"), ValueError("no JSON")])
def test_end_that_nobody_knows_counts_until_the_stored_sums_and_is_said_to_be_uncertain(
        world: World, killed: t.Callable[..., Process], answer: t.Any) -> None:
    process = killed(answer)
    assert process.sums()["default"] == Sum(used=60.0)
    assert process.keeper.known().uncertain == 125.0
    process.keeper.keep()
    assert world.process().keeper.known().uncertain == 125.0


def test_lost_answer_to_a_write_counts_nothing_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    process = world.process()
    attached(world, "a")
    world.now += 30
    patch = world.api.merge_patch

    def lost(*args: t.Any, **options: t.Any) -> t.Any:
        patch(*args, **options)
        raise Unreachable("the answer is lost")

    monkeypatch.setattr(world.api, "merge_patch", lost)
    process.keeper.keep()
    assert "cannot be stored" in process.told[-1]
    monkeypatch.setattr(world.api, "merge_patch", patch)
    world.now += 30
    process.keeper.keep()
    assert process.sums() == {"": Sum(idle=60.0, attaches=1)}
    assert process.told[-1] == ""


def test_another_leaders_sums_are_not_overwritten(world: World) -> None:
    old, new = world.process(), world.process()
    attached(world, "a")
    world.now += 30
    world.api.before = lambda call: None
    old.keeper._look()
    new.keeper.keep()
    world.now += 5
    old.keeper._send()  # it does not know yet that it lost
    assert "cannot be stored" in old.told[-1]
    assert old.sums() == new.sums() == {"": Sum(idle=35.0, attaches=1)}


def test_process_that_does_not_lead_writes_nothing(world: World) -> None:
    process = world.process()
    attached(world, "a")

    def check() -> None:
        raise NotLeading("this process no longer leads")

    process.keeper._text._client = world.api.guarded(check)
    writes = len(world.api.writes(CONFIG_MAPS))
    process.keeper.keep()
    assert len(world.api.writes(CONFIG_MAPS)) == writes
    assert "no longer leads" in process.keeper.problem


def test_change_that_is_known_late_corrects_the_stored_sums(world: World) -> None:
    process = world.process()
    attached(world, "a")
    world.claim("train", "gpu-0")
    process.keeper.update()
    world.now += 60
    process.keeper.keep()
    process.moments.note("released", "uid-default-train", world.now - 10)
    claim = world.api.one(CLAIMS, "train", "default")
    process.state.claims.remove(claim)
    world.now += 1
    assert process.sums() == {"default": Sum(used=50.0), "": Sum(idle=11.0, attaches=1)}
    process.keeper.keep()
    assert process.sums()["default"] == Sum(used=50.0)
    assert world.process().keeper.known().until == world.now


def test_sums_are_stored_before_the_note_of_a_leaving_device_is_deleted(world: World) -> None:
    process = world.process()
    attached(world, "a", "b")
    process.keeper.keep()
    world.claim("train", "gpu-0")
    process.keeper.update()
    world.now += 25
    world.remove(CLAIMS, "train", "default")
    for name in ("a", "b"):
        world.device(f"r-{name}", "")
    writes = len(world.api.writes(CONFIG_MAPS))
    process.writer.resources.finish("r-a")
    process.writer.resources.finish("r-b")
    assert len(world.api.writes(CONFIG_MAPS)) == writes + 1, "one write counts both"
    world.processes.clear()
    world.remove(COMPOSABLE_RESOURCES, "r-a")
    world.remove(COMPOSABLE_RESOURCES, "r-b")
    assert world.process().sums() == {"default": Sum(used=25.0), "": Sum(idle=25.0, attaches=2)}


def test_device_is_released_also_if_the_sums_cannot_be_stored(world: World) -> None:
    process = world.process()
    attached(world, "a")
    process.keeper.update()
    world.device("r-a", "")
    world.api.fail("get", CONFIG_MAPS, Unreachable("down"))
    process.writer.resources.finish("r-a")
    assert "down" in process.keeper.problem


def test_label_of_the_pod_divides_the_sums(world: World) -> None:
    process = world.process("team")
    process.keeper.keep()
    attached(world, "a")
    pod = objects.pod("train")
    pod["metadata"]["labels"] = {"team": "red", "secret": "not-told"}
    world.put(PODS, pod)
    world.claim("train", "gpu-0")
    process.keeper.update()
    process.touch("r-a", in_use=True)
    world.remove(PODS, "train", "default")
    world.processes.clear()
    world.now += 10
    table = world.process("team").keeper.known().table
    assert {(place.namespace, place.label): row.used for place, row in table.items() if row.used} == {
        ("default", "red"): 10.0}
    assert "not-told" not in json.dumps(world.api.one(COMPOSABLE_RESOURCES, "r-a"))


def test_damaged_sums_begin_again_and_the_problem_is_said(world: World) -> None:
    process = world.process()
    attached(world, "a")
    world.api.put(CONFIG_MAPS, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "data": {"usage": "?"}})
    world.now += 10
    process.keeper.keep()
    assert any("damaged" in said for said in process.told)
    assert process.sums() == {"": Sum(idle=10.0, attaches=1)}
    assert process.told[-1] == ""


def test_sums_of_another_release_are_not_overwritten(world: World) -> None:
    process = world.process()
    text = base64.b64encode(zlib.compress(b'{"version": 2}')).decode()
    world.api.put(CONFIG_MAPS, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "data": {"usage": text}})
    process.keeper.keep()
    assert world.api.one(CONFIG_MAPS, NAME, NAMESPACE)["data"]["usage"] == text
    assert "of another release (version 2)" in process.keeper.problem


@pytest.mark.parametrize("text", ["", "x", "{}", '{"version":1}', '{"version":1,"attached":"x","uses":[]}',
                                  '{"version":1,"attached":1,"uses":[["u"]]}', "[]", "1"])
def test_forged_note_stops_nothing(world: World, text: str) -> None:
    attached(world, "a")
    raw = world.api.one(COMPOSABLE_RESOURCES, "r-a")
    raw["metadata"]["annotations"][ANNOTATION] = text
    world.put(COMPOSABLE_RESOURCES, raw)
    process = world.process()
    world.now += 10
    assert process.sums()[""].idle == 10.0


def test_memory_of_a_large_cluster(world: World) -> None:
    """5,000 nodes with eight devices each, each with a claim and a use that ended. 33 MB were measured."""
    process = world.process()
    tracemalloc.start()
    for number in range(40_000):
        uid, model = f"{number:08d}-0000-4000-8000-000000000000", "A100 40G"
        uses = (Use(f"a{uid}", "default", f"train-{number}", "", NOW, NOW + 5.0),
                Use(uid, "default", f"b-{number}", "", NOW))
        found = Attachment(model, NOW - number, "default", uses, 0.0, f"{number:010x}")
        process.ledger._nodes.setdefault(f"node-{number // 8}", {})[f"gpu-{uid}"] = found
    size, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 40_000_000
    assert process.ledger.between(NOW - 50_000.0, NOW + 10.0)[0]


@pytest.mark.parametrize("seed", range(8))
def test_random_lives_are_counted_as_they_were(world: World, seed: int) -> None:
    """Two processes, of which one is restarted at times, and claims that come and go."""
    chance, devices = random.Random(seed), ["a", "b", "c"]
    leader, standby = world.process(), world.process()
    leader.keeper.keep()
    attached(world, *devices)
    for process in (leader, standby):
        process.keeper.update()
    used: dict[str, float] = {}
    holder: dict[int, tuple[str, str, float]] = {}
    began, number = world.now, 0
    for _step in range(150):
        world.now += chance.choice([0.3, 2.0, 20.0])
        slot = chance.randrange(len(devices))
        if slot in holder:
            name, namespace, since = holder.pop(slot)
            world.remove(CLAIMS, name, namespace)
            used[namespace] = used.get(namespace, 0.0) + world.now - since
        else:
            number += 1
            name, namespace = f"claim-{number}", chance.choice(["red", "blue"])
            world.claim(name, namespace=namespace)
            world.claim(name, f"gpu-{slot}", namespace=namespace)
            holder[slot] = (name, namespace, world.now)
        standby.keeper.update()
        leader.touch(f"r-{devices[slot]}", in_use=slot in holder)
        if chance.random() < 0.3:
            leader.keeper.keep()
        if chance.random() < 0.15:  # the leader is killed, the other one leads, and a new one stands by
            world.processes.remove(leader)
            leader, standby = standby, world.process()
    for _name, namespace, since in holder.values():
        used[namespace] = used.get(namespace, 0.0) + world.now - since
    found = leader.sums()
    assert {name: found[name].used for name in used} == pytest.approx(used, abs=0.01)
    assert sum(row.used + row.idle for row in found.values()) == pytest.approx(3 * (world.now - began), abs=0.01)
    assert sum(row.attaches for row in found.values()) == 3


def attaches(process: Process) -> int:
    """How many attaches a process counts."""
    return sum(row.attaches for row in process.sums().values())


def requested(world: World, *devices: str) -> float:
    """ComposableResources that wait for their devices, and when they were made."""
    for device in devices:
        world.device(f"r-{device}", "", created=world.now)
    return world.now


class TestAttachesOfAKilledProcess:
    """Each attach is counted once, whatever the leader had stored when it was killed."""

    def test_attach_after_the_stored_sums(self, world: World) -> None:
        first = world.process()
        made = requested(world, "a")
        world.now += 1
        first.keeper.keep()
        world.now += 1
        world.device("r-a", "a", created=made)
        world.processes.clear()
        assert attaches(world.process()) == 1

    def test_attach_that_the_stored_sums_have(self, world: World) -> None:
        first = world.process()
        made = requested(world, "a")
        world.now += 1
        world.device("r-a", "a", created=made)
        world.now += 1
        first.keeper.keep()
        world.processes.clear()
        second = world.process()
        assert attaches(second) == 1
        second.keeper.keep()
        assert attaches(second) == attaches(world.process()) == 1

    def test_attach_while_the_sums_are_stored(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """The moment of the stored sums is later than the attach, and they do not have it."""
        first = world.process()
        made = requested(world, "a")
        first.keeper.keep()
        between = first.ledger.between

        def late(since: float, until: float) -> t.Any:
            found = between(since, until)
            world.device("r-a", "a", created=made)
            first.ledger.update()
            return found

        world.now += 1
        monkeypatch.setattr(first.ledger, "between", late)
        first.keeper.keep()
        world.processes.clear()
        assert attaches(world.process()) == 1

    def test_attach_that_the_other_process_saw_later(self, world: World) -> None:
        leader, standby = world.process(), world.process()
        made = requested(world, "a")
        standby.keeper.update()
        world.processes.remove(standby)
        world.now += 1
        world.device("r-a", "a", created=made)
        leader.keeper.keep()
        world.now += 0.1
        raw = world.api.one(COMPOSABLE_RESOURCES, "r-a")
        standby.see("MODIFIED", COMPOSABLE_RESOURCES, raw, {**raw, "status": {}})
        standby.keeper.keep()
        assert attaches(standby) == 1

    def test_attach_that_the_other_process_saw_earlier(self, world: World) -> None:
        leader, standby = world.process(), world.process()
        made = requested(world, "a")
        leader.keeper.keep()
        world.processes.remove(leader)
        world.now += 1
        world.device("r-a", "a", created=made)
        standby.keeper.update()
        world.now += 0.1
        leader.keeper.keep()  # its watch is behind
        standby.keeper.keep()
        assert attaches(standby) == 1

    def test_attach_that_left_before_the_other_process_read_the_sums(self, world: World) -> None:
        leader, standby = world.process(), world.process()
        attached(world, "a")
        for process in (leader, standby):
            process.keeper.update()
        world.remove(COMPOSABLE_RESOURCES, "r-a")
        for _twice in range(2):
            world.now += 1
            leader.keeper.keep()
        standby.keeper.update()
        standby.keeper.keep()
        assert attaches(standby) == 1

    def test_device_that_was_detached_before_the_process_began_is_counted_once(self, world: World) -> None:
        first = world.process()
        first.keeper.keep()
        attached(world, "a")
        first.keeper.update()
        first.touch("r-a", in_use=True)
        world.device("r-a", "")
        first.keeper.keep()
        world.processes.clear()
        second = world.process()
        assert attaches(second) == 1
        second.writer.resources.finish("r-a")
        assert attaches(world.process()) == 1

    def test_attach_that_only_the_note_of_a_detached_device_tells_is_counted(self, world: World) -> None:
        first = world.process()
        first.keeper.keep()
        attached(world, "a")
        first.keeper.update()
        first.touch("r-a", in_use=True)
        world.device("r-a", "")
        world.processes.clear()
        assert attaches(world.process()) == 1

    def test_device_from_before_the_first_process_is_no_attach(self, world: World) -> None:
        attached(world, "a")
        world.now += 1
        first = world.process()
        assert attaches(first) == 0
        first.keeper.keep()
        assert attaches(first) == attaches(world.process()) == 0

    def test_more_attaches_than_the_stored_sums_name(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sums, "MOST_KEYS", 3)
        first = world.process()
        for number in range(8):
            world.now += 1
            world.device(f"r-{number}", "")
            world.device(f"r-{number}", f"{number}")
        first.keeper.keep()
        world.processes.clear()
        assert attaches(world.process()) == 8

    @pytest.mark.parametrize("seed", range(10))
    def test_random_kills(self, world: World, seed: int) -> None:
        chance, made, count = random.Random(seed), dict[str, float](), 0
        leader, standby = world.process(), world.process()
        leader.keeper.keep()
        for number in range(120):
            world.now += chance.choice([0.05, 1.0, 30.0])
            step = chance.random()
            if step < 0.3:
                made[f"{number}"] = requested(world, f"{number}")
            elif step < 0.6 and made and world.now - made[max(made, key=int)] < sums.RECENT / 2:
                device = max(made, key=int)  # no attach takes longer
                when = made.pop(device)
                world.device(f"r-{device}", device, created=when)
                count += 1
            elif step < 0.75:
                leader.keeper.keep()
            elif step < 0.8 and (there := [name for name in leader.state.resources.names() if "device" not in name]):
                leader.keeper.settle(name := chance.choice(sorted(there)))
                world.remove(COMPOSABLE_RESOURCES, name)
                made.pop(name.removeprefix("r-"), None)
            elif step < 0.9:
                standby.keeper.update()
            elif step < 0.95:  # the leader is killed, the other one leads, and a new one stands by
                world.processes.remove(leader)
                leader, standby = standby, world.process()
            else:  # both are killed
                world.processes.clear()
                leader, standby = world.process(), world.process()
            assert attaches(leader) == count
