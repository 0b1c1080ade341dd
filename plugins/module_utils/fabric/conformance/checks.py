# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All conformance checks as data, and one run of them against a CDI Manager."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..api import Device
from ..errors import FabricError
from . import changing, reading
from .steady import give_back, patiently
from .subject import Failed, Skipped, Subject, Unsupported

PASSED, FAILED, UNSUPPORTED, SKIPPED = "passed", "failed", "unsupported", "skipped"


@dataclass(frozen=True, slots=True)
class Check:
    """A check. ``work`` tells how the manager does it, or raises Failed, Unsupported or Skipped."""

    name: str
    work: Callable[[Subject], str]
    changes: bool

    @property
    def title(self) -> str:
        """The name in words."""
        return self.name.replace("_", " ")

    @property
    def means(self) -> str:
        """The statement that is true if the check passes."""
        return " ".join((self.work.__doc__ or "").split())


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of one check. ``words`` say how the manager does it, or why it did not pass."""

    check: Check
    outcome: str
    words: str
    seconds: float


_READING: t.Final = (
    reading.machines_are_listed, reading.a_machine_reads_as_it_is_listed, reading.an_unknown_machine_is_missing,
    reading.a_foreign_machine_is_missing, reading.every_device_is_listed_once, reading.devices_say_what_they_are,
    reading.names_are_complete, reading.nothing_is_left_out, reading.many_readers_see_the_same,
    reading.an_unknown_operation_is_missing, reading.free_devices_are_counted,
    reading.an_unknown_model_has_no_free_devices,
)
_CHANGING: t.Final = (
    changing.a_device_is_attached_and_detached, changing.detaching_twice_is_done,
    changing.detaching_an_unknown_device_is_done, changing.several_devices_by_one_call,
    changing.parallel_attaches_get_different_devices, changing.a_repeated_token_loses_no_device,
    changing.a_crash_loses_no_device, changing.an_exhausted_model_is_refused, changing.an_unknown_model_is_refused,
    changing.an_unknown_machine_is_refused, changing.a_foreign_machine_is_refused,
    changing.a_device_of_another_machine_stays, changing.an_unhealthy_device_is_refused,
    changing.memory_is_attached_and_detached,
)
CHECKS: t.Final = (
    *(Check(work.__name__, work, False) for work in _READING),
    *(Check(work.__name__, work, True) for work in _CHANGING),
)


def run(subject: Subject, checks: Iterable[Check] = CHECKS) -> list[Result]:
    """Run all checks. A check that fails or cannot run does not stop the others."""
    return [examine(subject, check) for check in checks]


def examine(subject: Subject, check: Check) -> Result:
    """Run one check. If it leaves devices on the machine, detach them and fail the check."""
    started = time.monotonic()
    outcome, words = _outcome(subject, check)
    return Result(check, outcome, words, time.monotonic() - started)


def _outcome(subject: Subject, check: Check) -> tuple[str, str]:
    if check.changes and not subject.changes:
        return SKIPPED, "nothing may be changed"
    if check.changes and (subject.machine is None or subject.model is None):
        return SKIPPED, "the options machine and model are not set"
    try:
        return PASSED, _alone(subject, check)
    except Skipped as reason:
        return SKIPPED, str(reason)
    except Unsupported as reason:
        return UNSUPPORTED, str(reason)
    except Failed as reason:
        return FAILED, str(reason)
    except FabricError as error:
        return FAILED, f"{type(error).__name__}: {error}"


def _alone(subject: Subject, check: Check) -> str:
    """Run a check and detach the devices that it left. Return the check's words."""
    if not check.changes:
        return check.work(subject)
    before = {device.uid for device in _shown(subject)}
    done = False
    try:
        words = check.work(subject)
        done = True
    finally:
        left = [device for device in _shown(subject) if device.uid not in before]
        give_back(subject, left)
    if done and left:
        raise Failed(f"left on the machine: {', '.join(d.uid for d in left)}")
    return words


def _shown(subject: Subject) -> tuple[Device, ...]:
    return tuple(patiently(subject, lambda: subject.fabric.machine(subject.on)).devices)


def reachable(subject: Subject) -> None:
    """Raise FabricError if the manager cannot be reached, because then no check is useful."""
    patiently(subject, subject.fabric.machines)
