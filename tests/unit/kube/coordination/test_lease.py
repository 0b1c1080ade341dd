# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""At most one holds the lease; a killed holder of this host is not waited for, any other one is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.lease import (
    Lease,
    Observed,
    may_take,
    observe,
    process_identity,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import (
    ApiError,
    Forbidden,
    NotServed,
    Unreachable,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.tests.unit.kube.coordination.fake_leases import FakeLeases

ME, OTHER = "me/boot/1/10/100", "other/boot/1/20/200"
MICRO = "2026-01-02T03:04:05.000000Z"


def alive(holder: str, ours: str) -> bool:
    return False


def dead(holder: str, ours: str) -> bool:
    return True


def seen(holder: str = OTHER, acquired: str = MICRO, since: float = 100.0) -> Observed:
    return Observed(holder, acquired, MICRO, 0, 15.0, since)


DECISIONS: list[tuple[str, Observed, float, Callable[[str, str], bool], bool]] = [
    ("unheld", seen(""), 100, alive, True),
    ("just seen", seen(), 100, alive, False),
    ("almost expired", seen(), 114.9, alive, False),
    ("expired", seen(), 115, alive, True),
    ("dead on this host", seen(), 100, dead, True),
    ("ours by our own write", seen(ME, "ours"), 100, alive, True),
    ("our process, another part", seen(ME, MICRO), 100, alive, False),
    ("our process, another part, expired", seen(ME, MICRO), 116, alive, True),
]


@pytest.mark.parametrize(
    ("lease", "now", "is_dead", "expected"), [case[1:] for case in DECISIONS], ids=[case[0] for case in DECISIONS]
)
def test_decision(lease: Observed, now: float, is_dead: Callable[[str, str], bool], expected: bool) -> None:
    assert may_take(lease, ME, "ours", now, is_dead) is expected


def record(**spec: Any) -> dict[str, Any]:
    base = {"holderIdentity": OTHER, "acquireTime": MICRO, "renewTime": MICRO, "leaseDurationSeconds": 15}
    return {"metadata": {"resourceVersion": "1"}, "spec": base | {"leaseTransitions": 2} | spec}


def test_an_unchanged_record_keeps_its_age() -> None:
    first = observe(record(), None, 100.0)
    assert first == Observed(OTHER, MICRO, MICRO, 2, 15.0, 100.0)
    assert observe(record(), first, 109.0) is not None
    assert observe(record(), first, 109.0).since == 100.0


@pytest.mark.parametrize(
    "change",
    [
        {"renewTime": "2026-01-02T03:04:06.000000Z"},
        {"holderIdentity": "third"},
        {"leaseTransitions": 3},
        {"leaseDurationSeconds": 30},
    ],
)
def test_a_changed_record_starts_again(change: dict[str, Any]) -> None:
    assert observe(record(**change), observe(record(), None, 100.0), 109.0).since == 109.0


@pytest.mark.parametrize("lease", [{}, {"spec": None}, {"spec": {"holderIdentity": None}}])
def test_an_empty_record_is_free(lease: dict[str, Any]) -> None:
    assert may_take(observe(lease, None, 5.0), ME, "", 5.0, alive)


@pytest.fixture
def server() -> FakeLeases:
    return FakeLeases()


@pytest.fixture
def make(server: FakeLeases) -> Iterator[Callable[..., Lease]]:
    made: list[Lease] = []

    def build(identity: str = ME, **options: Any) -> Lease:
        chosen: dict[str, Any] = {"duration": 30, "dead": alive} | options
        made.append(Lease(server.client, "ns", "scaler", identity, **chosen))
        return made[-1]

    yield build
    for lease in made:
        lease.release()


Make = Callable[..., Lease]


def test_an_absent_lease_is_created(server: FakeLeases, make: Make) -> None:
    lease = make()
    assert lease.acquire(0)
    assert lease.held
    assert lease.holder == ME
    assert server.stored is not None
    assert server.stored["metadata"]["namespace"] == "ns"
    assert server.spec["leaseDurationSeconds"] == 30
    assert server.spec["leaseTransitions"] == 0
    assert server.spec["acquireTime"] == server.spec["renewTime"]
    assert server.spec["renewTime"].endswith("Z")
    assert len(server.spec["renewTime"]) == len(MICRO)


def test_acquiring_twice_is_one_lease(server: FakeLeases, make: Make) -> None:
    lease = make()
    assert lease.acquire(0)
    writes = server.writes
    assert lease.acquire(0)
    assert server.writes == writes


def test_a_held_lease_is_not_given_to_another(make: Make) -> None:
    assert make().acquire(0)
    other = make(OTHER)
    assert not other.acquire(0)
    assert not other.held
    assert other.holder == ME


def test_a_second_part_of_one_process_has_to_wait_too(make: Make) -> None:
    assert make(process_identity()).acquire(0)
    assert not make(process_identity()).acquire(0)


def test_a_released_lease_is_free_at_once(server: FakeLeases, make: Make) -> None:
    first, second = make(), make(OTHER)
    assert first.acquire(0)
    first.release()
    assert not first.held
    assert server.spec["holderIdentity"] == ""
    assert second.acquire(0)
    assert server.spec["leaseTransitions"] == 1


def test_a_dead_holder_of_this_host_is_not_waited_for(server: FakeLeases, make: Make) -> None:
    assert make().acquire(0)
    assert make(OTHER, dead=dead).acquire(0)
    assert server.spec["holderIdentity"] == OTHER


def test_frozen_holder_does_not_renew_what_has_ended(server: FakeLeases, make: Make) -> None:
    """Frozen for longer than the lease lasts: what others did meanwhile it cannot know."""
    clock, gone = Clock(), threading.Event()
    lease = make(clock=clock, duration=0.5, on_lost=gone.set)
    assert lease.acquire(0)
    assert server.wait_for(lambda: server.writes >= 2)
    with server.changed:
        clock.now += 60
        writes = server.writes
    assert gone.wait(10)
    assert server.writes == writes
    assert not lease.held


def test_lease_that_another_had_meanwhile_is_lost(server: FakeLeases, make: Make) -> None:
    """The other took it and gave it up: it is free, but not the same."""
    def come_and_go() -> None:
        server.edit(lambda spec: spec.update(holderIdentity="", leaseTransitions=5))

    lost(server, make, come_and_go)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_silent_holder_is_replaced_after_its_own_duration(server: FakeLeases, make: Make) -> None:
    clock = Clock()
    server.stored = record(leaseDurationSeconds=40)
    lease = make(clock=clock, duration=10)
    assert not lease.acquire(0)
    clock.now += 39
    assert not lease.acquire(0)
    clock.now += 1
    assert lease.acquire(0)


def test_a_record_tells_who_holds_it_while_it_is_renewed(server: FakeLeases, make: Make) -> None:
    """One look by a process that takes nothing, by the API server's clock."""
    onlooker, now = make(OTHER), parse_time(MICRO)
    assert onlooker.live_holder(now) == "", "no Lease"
    server.stored = record(holderIdentity=ME, renewTime=MICRO, leaseDurationSeconds=40)
    assert onlooker.live_holder(now + 39) == ME
    assert onlooker.live_holder(now + 41) == "", "expired"
    assert make(OTHER, dead=dead).live_holder(now) == "", "its process ended"
    server.edit(partial(dict.update, holderIdentity=""))
    assert onlooker.live_holder(now) == ""
    assert server.writes == 0


def test_a_renewing_holder_is_never_replaced(server: FakeLeases, make: Make) -> None:
    clock = Clock()
    server.stored = record()
    lease = make(clock=clock)
    for moment in ("10", "11", "12", "13"):
        assert not lease.acquire(0)
        clock.now += 14
        server.edit(partial(dict.update, renewTime=f"2026-01-02T03:04:{moment}.000000Z"))
    assert not lease.acquire(0)


def test_held_ends_by_the_clock_alone(make: Make) -> None:
    clock = Clock()
    lease = make(clock=clock)
    assert lease.acquire(0)
    clock.now += 23
    assert lease.held
    clock.now += 1
    assert not lease.held


def test_it_is_renewed(server: FakeLeases, make: Make) -> None:
    lease = make(duration=0.5)
    assert lease.acquire(0)
    first = server.spec["renewTime"]
    assert server.wait_for(lambda: server.writes >= 4)
    assert server.spec["renewTime"] > first
    assert server.spec["acquireTime"] == first


def lost(server: FakeLeases, make: Make, trouble: Callable[[], object]) -> Lease:
    gone = threading.Event()
    lease = make(duration=0.5, on_lost=gone.set)
    assert lease.acquire(0)
    trouble()
    assert gone.wait(10)
    assert not lease.held
    return lease


def failing(server: FakeLeases) -> Callable[[], object]:
    return lambda: setattr(server, "fail", Unreachable("no answer", sent=True))


def test_it_is_kept_when_a_server_that_starts_refuses_at_first(server: FakeLeases, make: Make) -> None:
    """Its permissions are not there yet. At the usual pace four renewals would be all that fit."""
    gone = threading.Event()
    lease = make(duration=2.0, on_lost=gone.set)
    assert lease.acquire(0)
    server.failures, server.fail = 6, Forbidden(403, "Forbidden", "the role is not found")
    writes = server.writes
    assert server.wait_for(lambda: server.writes > writes or gone.is_set())
    assert lease.held
    assert not gone.is_set()


def test_it_is_lost_when_renewals_fail_for_its_duration(server: FakeLeases, make: Make) -> None:
    lease = lost(server, make, failing(server))
    assert lease.last_error == "no answer"
    server.fail = None
    assert lease.acquire(5)
    writes = server.writes
    assert server.wait_for(lambda: server.writes >= writes + 2), "it is renewed again"


def test_it_is_lost_when_another_took_it(server: FakeLeases, make: Make) -> None:
    def take() -> None:
        server.edit(lambda spec: spec.update(holderIdentity=OTHER, acquireTime=MICRO, leaseDurationSeconds=60))

    assert lost(server, make, take).holder == OTHER
    assert server.spec["holderIdentity"] == OTHER


def test_a_listener_that_raises_hurts_nobody(server: FakeLeases, make: Make) -> None:
    called = threading.Event()

    def listener() -> None:
        called.set()
        raise RuntimeError("listener")

    lease = make(duration=0.3, on_lost=listener)
    assert lease.acquire(0)
    server.fail = Unreachable("no answer")
    assert called.wait(10)
    server.fail = None
    assert lease.acquire(5)


def test_a_listener_may_acquire_it_again(server: FakeLeases, make: Make) -> None:
    def again() -> None:
        server.fail = None
        assert lease.acquire(10)

    lease = make(duration=0.5, on_lost=again)
    assert lease.acquire(0)
    server.fail = Unreachable("no answer")
    writes = server.writes
    assert server.wait_for(lambda: server.writes >= writes + 3), "it is renewed again"


def test_a_foreign_edit_does_not_lose_it(server: FakeLeases, make: Make) -> None:
    lease = make(duration=3)
    assert lease.acquire(0)
    server.edit(lambda spec: spec.update(extra="x"))
    writes = server.writes
    assert server.wait_for(lambda: server.writes > writes)
    assert lease.held
    assert server.spec["holderIdentity"] == ME


def test_a_deleted_lease_is_created_again(server: FakeLeases, make: Make) -> None:
    lease = make(duration=3)
    assert lease.acquire(0)
    server.remove()
    assert server.wait_for(lambda: server.stored is not None)
    assert lease.held


def test_a_lost_reply_is_recognized_as_ours(server: FakeLeases, make: Make) -> None:
    server.lose_reply = Unreachable("cut", sent=True)
    lease = make()
    assert not lease.acquire(0)
    assert server.spec["holderIdentity"] == ME
    assert lease.acquire(0)


@pytest.mark.parametrize(
    "error",
    [Forbidden(403, "Forbidden", "no lease for you"), NotServed(404, "", "404 page not found")],
)
def test_a_refusal_is_raised(server: FakeLeases, make: Make, error: ApiError) -> None:
    server.fail = error
    with pytest.raises(type(error)):
        make().acquire(5)


@pytest.mark.parametrize("error", [
    Unreachable("no answer"),
    ApiError(500, "InternalError", "etcdserver: mvcc: database space exceeded"),
    ApiError(504, "Timeout", "the request timed out"),
])
def test_a_server_in_trouble_is_waited_for(server: FakeLeases, make: Make, error: ApiError) -> None:
    server.fail = error
    lease = make()
    assert not lease.acquire(0)
    assert lease.last_error == error.message


def test_release_tells_nobody_of_a_loss(server: FakeLeases, make: Make) -> None:
    told = threading.Event()
    lease = make(duration=0.3, on_lost=told.set)
    assert lease.acquire(0)
    lease.release()
    lease.release()
    assert not told.is_set()
    assert server.spec["holderIdentity"] == ""


def test_release_with_an_unreachable_server_does_not_raise(server: FakeLeases, make: Make) -> None:
    lease = make()
    assert lease.acquire(0)
    server.fail = Unreachable("no answer")
    lease.release()
    assert not lease.held


def test_of_many_only_one_gets_it(server: FakeLeases, make: Make) -> None:
    leases = [make(f"host/boot/1/{number}/1") for number in range(8)]
    threads = [threading.Thread(target=lease.acquire, args=(0,)) for lease in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [lease.held for lease in leases].count(True) == 1
