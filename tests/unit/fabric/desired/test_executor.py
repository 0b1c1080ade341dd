# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wanted number of devices: never one too many, whatever is answered."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, Machine, Task
from ansible_collections.composable.infra.plugins.module_utils.fabric.desired import executor
from ansible_collections.composable.infra.plugins.module_utils.fabric.desired.executor import attach_missing, of_model
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Refused, Unavailable, Uncertain
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, T4
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import FakeFabric, device

LOST = Uncertain("the reply was lost")


class Late(FakeFabric):
    """A manager whose devices show only after some looks. ``comes``: after how many looks, per device."""

    def late(self, **comes: int) -> None:
        self.comes = dict(comes)

    def machine(self, uid: str) -> Machine:
        for name in [n for n, looks in self.comes.items() if looks == 0]:
            self.attached[name] = device(name)
            del self.comes[name]
        self.comes = {n: looks - 1 for n, looks in self.comes.items()}
        return super().machine(uid)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other at once."""
    monkeypatch.setattr(executor, "LOOK_SECONDS", 0.0)


@pytest.fixture
def fabric() -> Late:
    """A machine without devices."""
    made = Late()
    made.late()
    return made


def attach(fabric: FakeFabric, count: int, attach_deadline: float = 10.0) -> list[str]:
    """Uids of what was attached for a wanted number of A100s."""
    return [d.uid for d in attach_missing(fabric, "machine-0", A100, count, attach_deadline)]


def test_devices_of_one_model_by_uid() -> None:
    machine = Machine("m", "n", 1, (device("b"), device("x", T4), device("a")))
    assert [d.uid for d in of_model(machine, A100)] == ["a", "b"]


def test_what_is_missing_is_attached(fabric: Late) -> None:
    fabric.attached = {"old": device("old"), "other": device("other", T4)}
    assert attach(fabric, 3) == ["d1", "d2"]
    assert len(fabric.attached) == 4


def test_nothing_is_asked_when_there_are_enough(fabric: Late) -> None:
    fabric.attached = {"old": device("old")}
    assert attach(fabric, 1) == []
    assert fabric.attaches == []


def test_lost_reply_whose_device_is_there_is_not_repeated(fabric: Late) -> None:
    fabric.answers = [LOST]
    fabric.late(late=3)
    assert attach(fabric, 1) == ["late"]
    assert len(fabric.attaches) == 1


def test_lost_reply_without_effect_is_repeated_after_the_wait(fabric: Late) -> None:
    fabric.answers = [LOST]
    assert attach(fabric, 1, attach_deadline=0.0) == ["d2"]
    assert len(fabric.attaches) == 2


def test_device_of_another_model_is_no_effect(fabric: Late) -> None:
    fabric.answers = [LOST]
    fabric.attached = {"other": device("other", T4)}
    assert attach(fabric, 1, attach_deadline=0.0) == ["d2"]


def test_lost_reply_for_two_waits_for_both(fabric: Late) -> None:
    fabric.answers = [LOST]
    fabric.late(first=1, second=5)
    assert attach(fabric, 2) == ["first", "second"]
    assert len(fabric.attaches) == 1


def test_replies_that_are_always_lost_end_in_an_error(fabric: Late) -> None:
    fabric.answers = [LOST] * 20 + [AssertionError("asked 20 times")]
    with pytest.raises(Uncertain):
        attach(fabric, 1, attach_deadline=0.0)


@pytest.mark.parametrize("error", [Refused("no"), Unavailable("not now")])
def test_other_errors_are_raised_and_what_is_attached_stays(fabric: Late, error: Exception) -> None:
    fabric.answers = [None, error]
    with pytest.raises(type(error)):
        attach(fabric, 2)
    assert (len(fabric.attached), fabric.detaches) == (1, [])
    assert attach(fabric, 1) == []


@pytest.mark.parametrize(("there", "detached"), [(False, [("machine-0", "bad")]), (True, [])])
def test_device_attached_by_a_call_that_failed_is_given_back_unless_it_was_there_before(
    fabric: Late, monkeypatch: pytest.MonkeyPatch, there: bool, detached: list[tuple[str, str]]
) -> None:
    bad, error = device("bad", "another model"), Refused("the device is critical")
    error.device = bad
    if there:
        fabric.attached["bad"] = bad

    def sick(*_given: object, **_named: object) -> Task:
        fabric.attached["bad"] = bad
        raise error

    monkeypatch.setattr(fabric, "attach", sick)
    with pytest.raises(Refused):
        attach(fabric, 2)
    assert fabric.detaches == detached


def test_manager_that_attaches_one_at_a_time_is_asked_until_there_are_enough(
    fabric: Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def one(machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu") -> Task:
        asked.append(count)
        new: Device = device(f"n{len(asked)}")
        fabric.attached[new.uid] = new
        return Task(True, (new,))

    monkeypatch.setattr(fabric, "attach", one)
    assert attach(fabric, 3) == ["n1", "n2", "n3"]
    assert asked == [3, 2, 1]


def test_a_device_that_another_machine_has_too_is_given_back(fabric: Late, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request without a reply took effect late, when another client had the device. The old one is not ours."""
    fabric.answers = [LOST]
    fabric.attached = {"old": device("old", shared=True)}
    fabric.late()
    shown = fabric.machine

    def on_two(uid: str) -> Machine:
        if fabric.attaches and not fabric.detaches:
            fabric.attached["new"] = device("new", shared=True)
        return shown(uid)

    monkeypatch.setattr(fabric, "machine", on_two)
    with pytest.raises(Refused, match="new was attached to machine machine-0, but another machine"):
        attach(fabric, 2)
    assert fabric.detaches == [("machine-0", "new")]
