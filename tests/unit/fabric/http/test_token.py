# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Expiry from the JWT, renewal in time, one login however many threads wait, and no storm after a refusal."""

from __future__ import annotations

import threading
import typing as t
from concurrent.futures import ThreadPoolExecutor

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    FabricError,
    Unauthorized,
    Unavailable,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.token import (
    REFUSAL_PAUSE,
    RENEW_BEFORE,
    Token,
    TokenSource,
    claims,
    lifetime,
    token,
)
from ansible_collections.composable.infra.tests.unit.fabric.http.token_support import (
    Clock,
    jwt,
)


class Logins:
    """A login that counts, and fails with ``error`` when that is set."""

    def __init__(self, clock: Clock, seconds: float = 300.0) -> None:
        self.clock, self.seconds = clock, seconds
        self.count = 0
        self.error: FabricError | None = None

    def __call__(self) -> Token:
        self.count += 1
        if self.error:
            raise self.error
        return token(jwt(exp=self.seconds, iat=0, n=self.count), 0, self.clock.now)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize("filler", ["", "a", "ab", "abc", "ÿ?>"])
def test_payloads_of_every_padding_are_read(filler: str) -> None:
    assert claims(jwt(exp=1, x=filler)) == {"exp": 1, "x": filler}


@pytest.mark.parametrize("text", ["", "abc", "a.b", "a.b.c.d", "a.!!!.c", "a.bm90IGpzb24.c", "a.WzFd.c", "a.é.c"])
def test_what_is_no_jwt_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(Unauthorized, match=r"an access_token that is not a JWT$"):
        claims(text)


def test_lifetime_counts_from_the_servers_own_clock_when_it_tells() -> None:
    assert lifetime(jwt(exp=5300, iat=5000), asked_at=0) == 300
    assert lifetime(jwt(exp=5300), asked_at=5100) == 200


@pytest.mark.parametrize("payload", [{}, {"exp": "soon"}, {"exp": True}, {"exp": None}])
def test_a_token_without_expiry_is_refused(payload: dict[str, t.Any]) -> None:
    with pytest.raises(Unauthorized, match="without an expiry time"):
        lifetime(jwt(**payload), 0)


def test_renewal_is_30_seconds_before_the_end_or_at_half_of_a_short_life() -> None:
    assert token(jwt(exp=300, iat=0), 0, 1000).renew_at == 1300 - RENEW_BEFORE
    assert token(jwt(exp=10, iat=0), 0, 1000).renew_at == 1005
    assert token(jwt(exp=0, iat=10), 0, 1000).expires_at == 1000


def test_a_fresh_token_is_kept_and_a_stale_one_renewed(clock: Clock) -> None:
    logins = Logins(clock)
    source = TokenSource(logins, clock)
    first = source.get()
    clock.now += 269
    assert source.get() == first
    clock.now += 1
    assert source.get() != first
    assert logins.count == 2


def test_a_refused_token_is_replaced_once_for_all_who_had_it(clock: Clock) -> None:
    logins = Logins(clock)
    source = TokenSource(logins, clock)
    refused = source.get()
    assert len({source.get(refused=refused) for _unused in range(5)}) == 1
    assert logins.count == 2


def test_many_threads_share_one_login(clock: Clock) -> None:
    barrier = threading.Barrier(50)
    logins = Logins(clock)
    source = TokenSource(logins, clock)

    def get(_number: int) -> str:
        barrier.wait()
        return source.get()

    with ThreadPoolExecutor(50) as pool:
        assert len(set(pool.map(get, range(50)))) == 1
    assert logins.count == 1


class CountingLock:
    """Tells when ``wanted`` threads have come to the lock."""

    def __init__(self, wanted: int) -> None:
        self.all_here = threading.Barrier(wanted + 1)
        self.lock = threading.Lock()

    def __enter__(self) -> None:
        if not self.lock.acquire(blocking=False):
            self._queue()

    def _queue(self) -> None:
        self.all_here.wait(10)
        self.lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self.lock.release()


def test_threads_that_waited_for_a_failing_login_share_its_failure(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins = Logins(clock)
    logins.error = Unavailable("the identity service is away")
    lock = CountingLock(wanted=19)

    def login() -> Token:
        lock.all_here.wait(10)
        return logins()

    source = TokenSource(login, clock)
    monkeypatch.setattr(source, "_lock", lock)

    def get(_number: int) -> FabricError | None:
        try:
            source.get()
        except FabricError as error:
            return error
        return None

    with ThreadPoolExecutor(20) as pool:
        errors = list(pool.map(get, range(20)))
    assert {str(error) for error in errors} == {"the identity service is away"}
    assert len({id(error) for error in errors}) == 20
    assert logins.count == 1


def test_a_refused_login_is_not_repeated_at_once(clock: Clock) -> None:
    logins = Logins(clock)
    logins.error = Unauthorized("no", code="401")
    source = TokenSource(logins, clock)
    for _unused in range(10):
        with pytest.raises(Unauthorized, match="no") as caught:
            source.get()
        assert caught.value.code == "401"
    assert logins.count == 1
    clock.now += REFUSAL_PAUSE
    logins.error = None
    assert source.get()
    assert logins.count == 2


def test_an_unavailable_identity_service_is_asked_again_by_the_next_caller(clock: Clock) -> None:
    logins = Logins(clock)
    logins.error = Unavailable("away")
    source = TokenSource(logins, clock)
    with pytest.raises(Unavailable):
        source.get()
    logins.error = None
    assert source.get()


def test_a_token_that_still_lives_serves_on_while_the_identity_service_is_away(clock: Clock) -> None:
    logins = Logins(clock)
    source = TokenSource(logins, clock)
    first = source.get()
    logins.error = Unavailable("away")
    clock.now += 280
    assert source.get() == first
    assert source.get() == first
    assert logins.count == 2
    clock.now += 20
    with pytest.raises(Unavailable, match="away"):
        source.get()


def test_a_refused_token_does_not_serve_on(clock: Clock) -> None:
    logins = Logins(clock)
    source = TokenSource(logins, clock)
    first = source.get()
    logins.error = Unavailable("away")
    with pytest.raises(Unavailable):
        source.get(refused=first)
