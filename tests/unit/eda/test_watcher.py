# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the event source remembers, and when it speaks."""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.composable.infra.extensions.eda.plugins.event_source import claims as source
from ansible_collections.composable.infra.extensions.eda.plugins.event_source.claims import Watcher
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims as kube_claims
from ansible_collections.composable.infra.tests.unit.reconcile import objects

Json = dict[str, t.Any]
RESULT = objects.pool_result()
TIMES = {"settle": 0.0, "gather": 0.0, "interval": 0.0, "retry": 30.0, "resync": 300.0, "release_after": 600.0}
OF_JOBS = {**TIMES, "settle": 2.0, "gather": 30.0, "interval": 30.0, "retry": 60.0}


class Bench:
    """A watcher on a clock that the test moves; ``start`` is behind it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: dict[str, float] | None = None) -> None:
        self.now = 1000.0
        self.woken = 0
        monkeypatch.setattr(f"{source.__name__}.time.monotonic", lambda: self.now)
        self.watcher = Watcher(dict(times or TIMES), self._wake, kube_claims)
        self.watcher.event(self.watcher.due(self.now), self.now)
        self.seen: dict[str, Json] = {}

    def _wake(self) -> None:
        self.woken += 1

    def sees(self, claim: Json, kind: str = "MODIFIED") -> None:
        """The watch tells of a claim."""
        name = claim["metadata"]["name"]
        self.watcher.changed(kind, claim, self.seen.get(name))
        self.seen[name] = claim

    def after(self, seconds: float) -> str:
        """Why an event is due after that time."""
        self.now += seconds
        return self.watcher.due(self.now)

    def until(self, when: float) -> list[tuple[float, Json]]:
        """The events until then, each at the moment at which it is due."""
        found = []
        while max(self.watcher.next_time(), self.now) <= when:
            self.now = max(self.watcher.next_time(), self.now)
            found.append((self.now, self.speaks()))
        self.now = when
        return found

    def speaks(self) -> Json:
        """The event that is due now."""
        reason = self.watcher.due(self.now)
        assert reason, "nothing is due"
        found: Json = self.watcher.event(reason, self.now)["claims"]
        return found


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A watcher that has said that it starts."""
    return Bench(monkeypatch)


def test_start_is_an_event() -> None:
    watcher = Watcher(dict(TIMES), lambda: None, kube_claims)
    assert watcher.due(1.0) == "start"
    assert watcher.event("start", 1.0) == {"claims": {"reason": "start", "waiting": []}}
    assert watcher.due(1.0) == ""


def test_waiting_claim_is_told_with_where_and_since_when(bench: Bench) -> None:
    raw = objects.claim("train", RESULT)
    bench.sees(raw)
    assert bench.woken == 1
    event = bench.speaks()
    assert event == {"reason": "claims", "waiting": [{
        "uid": "uid-train", "namespace": "default", "name": "train", "kind": "ResourceClaim", "node": "node-0",
        "allocated": raw["status"]["allocation"]["allocationTimestamp"]}]}


def test_claim_of_a_pod_group_of_the_scheduler_is_told(bench: Bench) -> None:
    bench.sees(objects.claim("train", RESULT, reservedFor=[objects.POD_GROUP]))
    assert [claim["name"] for claim in bench.speaks()["waiting"]] == ["train"]


def test_claim_is_told_once_per_allocation(bench: Bench) -> None:
    raw = objects.claim("train", RESULT)
    bench.sees(raw)
    bench.speaks()
    bench.sees(raw)
    assert bench.after(0) == ""
    bench.sees(objects.claim("train", objects.pool_result("a100-1"), age=1))
    assert bench.after(0) == "claims"


def test_claim_that_waits_again_after_it_was_served_is_told_again(bench: Bench) -> None:
    raw = objects.claim("train", RESULT)
    bench.sees(raw)
    bench.speaks()
    bench.sees(objects.claim("train"))
    assert bench.after(0) == ""
    bench.sees(raw)
    assert bench.after(0) == "claims"


def test_event_tells_of_all_that_wait_in_order(bench: Bench) -> None:
    for name in ("b", "c", "a"):
        bench.sees(objects.claim(name, RESULT))
    assert [c["name"] for c in bench.speaks()["waiting"]] == ["a", "b", "c"]
    assert bench.after(0) == ""


@pytest.mark.parametrize("raw", [
    objects.claim("train"), objects.claim("train", objects.local_result()), objects.claim("train", RESULT, pods=()),
    objects.claim("train", RESULT, devices=[objects.told(RESULT, objects.RESCHEDULE)]),
    objects.claim("train", RESULT, devices=[objects.told(RESULT, objects.FAILED)]),
    objects.claim("train", RESULT, devices=[objects.told(RESULT, objects.READY)]),
], ids=["not allocated", "local device", "nobody's", "to move on", "failed", "ready"])
def test_claim_that_does_not_wait_wakes_nobody(bench: Bench, raw: Json) -> None:
    bench.sees(raw)
    assert (bench.woken, bench.after(0)) == (0, "")


@pytest.mark.parametrize("entry", [objects.told(RESULT, objects.FAILED, status="False"), objects.told(RESULT, "Other"),
                                   objects.told(objects.pool_result("a100-9"), objects.FAILED)])
def test_other_conditions_do_not_end_the_wait(bench: Bench, entry: Json) -> None:
    bench.sees(objects.claim("train", RESULT, devices=[entry]))
    assert bench.after(0) == "claims"


def test_deleted_claim_waits_no_more(bench: Bench) -> None:
    bench.sees(objects.claim("train", RESULT))
    bench.sees(objects.claim("train", RESULT), "DELETED")
    assert bench.after(0) == "freed"
    assert bench.speaks()["waiting"] == []
    assert bench.after(0) == ""


def test_claim_that_still_waits_is_told_again_after_a_while(bench: Bench) -> None:
    bench.sees(objects.claim("train", RESULT))
    bench.speaks()
    assert bench.after(29) == ""
    assert bench.after(1) == "retry"
    assert [c["name"] for c in bench.speaks()["waiting"]] == ["train"]
    assert bench.after(29) == ""


def test_nobody_is_told_again_when_none_waits(bench: Bench) -> None:
    bench.sees(objects.claim("train", RESULT))
    bench.speaks()
    bench.sees(objects.claim("train", objects.local_result()))
    assert bench.after(30) == "retry"
    assert bench.speaks()["waiting"] == []
    assert bench.after(200) == ""


def test_steady_event(bench: Bench) -> None:
    assert bench.after(299) == ""
    assert bench.after(1) == "resync"
    bench.speaks()
    assert bench.after(299) == ""


def test_every_event_puts_off_the_steady_one(bench: Bench) -> None:
    bench.now += 200
    bench.sees(objects.claim("train", RESULT))
    bench.speaks()
    bench.sees(objects.claim("train", objects.local_result()))
    bench.after(30)
    bench.speaks()
    assert bench.after(299) == ""
    assert bench.after(1) == "resync"


@pytest.mark.parametrize("kind", ["DELETED", "MODIFIED"])
def test_released_device_has_an_appointment_for_the_end_of_its_hold(bench: Bench, kind: str) -> None:
    used = objects.claim("train", objects.local_result())
    bench.sees(used)
    bench.sees(used if kind == "DELETED" else objects.claim("train"), kind)
    bench.after(300)
    bench.speaks()
    bench.after(300)
    assert bench.watcher.appointments["released uid-train"] <= bench.now
    bench.speaks()
    assert "released uid-train" not in bench.watcher.appointments


def test_deletion_of_a_claim_never_seen_before_counts(bench: Bench) -> None:
    bench.watcher.changed("DELETED", objects.claim("train", objects.local_result()), None)
    assert "released uid-train" in bench.watcher.appointments


def test_claim_that_moves_on_to_the_nodes_device_releases_nothing(bench: Bench) -> None:
    bench.sees(objects.claim("train", RESULT, devices=[objects.told(RESULT, objects.RESCHEDULE)]))
    bench.sees(objects.claim("train"))
    bench.sees(objects.claim("train", objects.local_result()))
    assert "released uid-train" not in bench.watcher.appointments


def release(bench: Bench, name: str) -> None:
    """A pod that used a device has ended."""
    used = objects.claim(name, objects.local_result())
    bench.sees(used)
    bench.sees(used, "DELETED")


def test_every_release_has_its_appointment(bench: Bench) -> None:
    release(bench, "first")
    bench.after(400)
    release(bench, "second")
    bench.after(200)
    bench.speaks()
    assert bench.watcher.next_time() <= bench.now + 300
    bench.after(300)
    bench.speaks()
    assert bench.after(100) == "released"


def test_release_is_told_at_once_so_that_the_hold_time_begins(bench: Bench) -> None:
    release(bench, "train")
    assert bench.after(0) != ""


def test_claim_deleted_while_it_waits_has_an_appointment_too(bench: Bench) -> None:
    waiting = objects.claim("train", RESULT)
    bench.sees(waiting)
    bench.speaks()
    bench.sees(waiting, "DELETED")
    bench.speaks()
    assert bench.watcher.next_time() > bench.now
    assert "released uid-train" in bench.watcher.appointments


def test_change_while_an_event_is_made_is_not_lost(bench: Bench) -> None:
    """The comparison of an appointment with the time is where another thread may come in between."""
    used = objects.claim("train", objects.local_result())

    threads: list[threading.Thread] = []

    class Moment(float):
        def __gt__(self, other: float) -> bool:
            threads.append(threading.Thread(target=bench.watcher.changed, args=("DELETED", used, used)))
            threads[-1].start()
            return float(self) > other

    bench.watcher.appointments = {"resync": Moment(5000.0), "retry": Moment(5000.0)}
    bench.watcher.event("claims", bench.now)
    for thread in threads:
        thread.join(10)
    assert threads
    assert "released uid-train" in bench.watcher.appointments


def test_claim_without_a_time_of_allocation_is_told_by_its_version(bench: Bench) -> None:
    raw = objects.claim("train", RESULT)
    del raw["status"]["allocation"]["allocationTimestamp"]
    bench.sees(raw)
    assert bench.speaks()["waiting"][0]["allocated"] == "1"


def burst(bench: Bench, apart: float, *, ends: bool = False) -> list[tuple[float, Json]]:
    """The events of a minute and a half in which 300 claims begin to wait, or end, by seconds from the first."""
    first, found = bench.now, []
    for number in range(300):
        used = objects.claim(f"c-{number}", objects.local_result() if ends else RESULT)
        bench.sees(used, "DELETED" if ends else "MODIFIED")
        found += bench.until(bench.now + apart)
    return [(when - first, event) for when, event in [*found, *bench.until(first + 90)]]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A watcher with the times of claim_job, a while after its first event."""
    bench = Bench(monkeypatch, OF_JOBS)
    bench.until(bench.now + 100)
    return bench


def test_burst_is_one_event_once_it_is_over(jobs: Bench) -> None:
    told = burst(jobs, 0.05)
    assert [event["reason"] for _when, event in told] == ["claims", "retry"]
    assert [when for when, _event in told] == [pytest.approx(16.95), pytest.approx(76.95)]


def test_stream_of_claims_is_an_event_each_interval(jobs: Bench) -> None:
    told = burst(jobs, 0.2)
    assert [when for when, event in told if event["reason"] == "claims"] == [pytest.approx(30), pytest.approx(60)]


def test_devices_that_become_free_are_an_event_each_interval(jobs: Bench) -> None:
    told = burst(jobs, 0.2, ends=True)
    assert [when for when, _event in told] == [pytest.approx(2), pytest.approx(32), pytest.approx(62)]
    assert {event["reason"] for _when, event in told} == {"freed"}


def test_claim_alone_is_told_once_it_is_clear_that_no_other_comes(jobs: Bench) -> None:
    jobs.sees(objects.claim("train", RESULT))
    start = jobs.now
    assert [when - start for when, _event in jobs.until(start + 50)] == [pytest.approx(2)]


def test_claim_that_is_seen_again_does_not_put_its_event_off(jobs: Bench) -> None:
    start, claim = jobs.now, objects.claim("train", RESULT)
    jobs.sees(claim)
    assert jobs.until(start + 1.5) == []
    jobs.sees(claim)
    assert [when - start for when, _event in jobs.until(start + 50)] == [pytest.approx(2)]


def test_an_event_lists_a_hundred_and_counts_the_others(bench: Bench) -> None:
    for number in range(130):
        bench.sees(objects.claim(f"c-{number:03}", RESULT))
    event = bench.speaks()
    assert ([c["name"] for c in event["waiting"]], event["more"]) == ([f"c-{n:03}" for n in range(100)], 30)
    assert bench.after(0) == "", "the others are known to the pass all the same"
