# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A manager is chosen by name; the errors keep what callers decide by."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    BadConfiguration,
    Busy,
    FabricError,
    Missing,
    Refused,
    Unauthorized,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations.parallel import outcomes


def config(**more: object) -> FabricConfig:
    keys = ("username", "password", "realm", "client_id", "client_secret")
    given = {"endpoint": "https://fm", "tenant": "7e63fd31-0a5c-4d1b-9a52-c0de00000001", **dict.fromkeys(keys, "x")}
    return FabricConfig.from_dict({**given, **more})


def test_an_unknown_manager_is_named_with_the_known_ones() -> None:
    with pytest.raises(BadConfiguration, match=r"^manager: 'xm' is not allowed. Allowed are fm"):
        connect(config(manager="xm"))


def test_a_bad_proxy_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://u:hidden@proxy")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("https_proxy", raising=False)
    with pytest.raises(BadConfiguration, match=r"^HTTPS_PROXY: ") as caught:
        connect(config())
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("kind", [Missing, Busy, Refused, Unauthorized, Unavailable, Uncertain])
def test_every_error_has_its_words_its_code_and_room_for_devices(kind: type[FabricError]) -> None:
    error = kind("words", code="E02", detail="more")
    assert (str(error), error.message, error.code, error.detail) == ("words", "words", "E02", "more")
    assert (error.device, error.devices, error.errors) == (None, (), ())


def test_one_failing_call_leaves_the_others() -> None:
    def work(number: int) -> int:
        if number == 2:
            raise Missing("two")
        return number * 10

    found = outcomes(work, range(4))
    assert [n for n in found if isinstance(n, int)] == [0, 10, 30]
    assert isinstance(found[2], Missing)
    assert outcomes(work, []) == []
    assert isinstance(outcomes(work, [2])[0], Missing)


def test_an_error_of_another_sort_is_not_swallowed() -> None:
    def work(_number: int) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        outcomes(work, range(2))
