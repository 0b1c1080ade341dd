# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rescheduler: a pod is nominated until it is bound, gone, or its time is over."""

from __future__ import annotations

import contextlib
import threading
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.model.claim import ResourceClaim
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import PodRef
from ansible_collections.composable.infra.plugins.module_utils.reconcile.controller import Change
from ansible_collections.composable.infra.plugins.module_utils.reconcile.rescheduling.rescheduler import Rescheduler
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values.claim_values import read_claim
from ansible_collections.composable.infra.plugins.module_utils.reconcile.writers.writer import Writer
from ansible_collections.composable.infra.plugins.module_utils.runtime.threads import Threads
from ansible_collections.composable.infra.tests.unit.reconcile import objects

POD = PodRef("default", "train", "pod-train")
CLAIM = objects.claim("train")


@dataclass
class FakeWriter:
    """Notes nominations. ``alive``: the answer, or an error to raise."""

    alive: bool | ApiError = True
    written: list[tuple[str, str, str, str, bool]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def pods(self) -> FakeWriter:
        """The writer of pods."""
        return self

    @property
    def claims(self) -> FakeWriter:
        """The writer of claims."""
        return self

    def nominate(self, namespace: str, pod: str, uid: str, node: str, anyway: bool = False) -> bool:
        with self.changed:
            self.written.append((namespace, pod, uid, node, anyway))
            self.changed.notify_all()
        if isinstance(self.alive, ApiError):
            raise self.alive
        return self.alive

    def deallocate(self, claim: ResourceClaim) -> None:
        with self.changed:
            self.dropped.append(claim.uid)
            self.changed.notify_all()
        if isinstance(self.alive, ApiError):
            raise self.alive

    def wait(self, number: int) -> None:
        """Wait for that many writes."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.written) + len(self.dropped) >= number, 10), self.written


@pytest.fixture
def writer() -> FakeWriter:
    """What is written."""
    return FakeWriter()


@pytest.fixture
def threads() -> Iterator[Threads]:
    """Its threads."""
    made = Threads()
    yield made
    made.cancel()


@pytest.fixture
def rescheduler(writer: FakeWriter, threads: Threads) -> Rescheduler:
    """Rescheduler that gives up after a minute."""
    return Rescheduler(t.cast(Writer, writer), 60.0, threads)


def seen(rescheduler: Rescheduler, kind: str = "MODIFIED", **status: str) -> None:
    """The watch shows the pod."""
    rescheduler.pod_changed(Change(kind, PODS, pods.read(objects.pod("train", **status))))


def test_pod_is_nominated_at_once(rescheduler: Rescheduler, writer: FakeWriter) -> None:
    rescheduler.nominate(POD, "node-0", "uid-train")
    assert writer.written == [("default", "train", "pod-train", "node-0", False)]
    assert rescheduler.under_way() == 1


@pytest.mark.parametrize("status", [{}, {"nominatedNodeName": "node-9"}], ids=["cleared", "another"])
def test_lost_nomination_is_written_again(rescheduler: Rescheduler, writer: FakeWriter, status: dict[str, str]) -> None:
    rescheduler.nominate(POD, "node-0", "uid-train")
    seen(rescheduler, **status)
    writer.wait(2)
    assert writer.written[1][:4] == writer.written[0][:4]


def test_nomination_that_is_there_is_left_alone(rescheduler: Rescheduler, writer: FakeWriter, threads: Threads) -> None:
    rescheduler.nominate(POD, "node-0", "uid-train")
    seen(rescheduler, nominatedNodeName="node-0")
    threads.cancel()
    assert len(writer.written) == 1


def test_pods_that_nobody_nominates_are_left_alone(rescheduler: Rescheduler, writer: FakeWriter,
                                                   threads: Threads) -> None:
    seen(rescheduler)
    seen(rescheduler, "DELETED")
    rescheduler.renew("pod-train")
    rescheduler.deallocated(read_claim(CLAIM))
    threads.cancel()
    assert writer.written == []


def test_deallocated_claim_has_its_pods_nominated_even_if_they_seem_to_be(
    rescheduler: Rescheduler, writer: FakeWriter
) -> None:
    rescheduler.nominate(POD, "node-0", "uid-train")
    rescheduler.nominate(PodRef("default", "other", "pod-other"), "node-0", "uid-other")
    rescheduler.deallocated(read_claim(CLAIM))
    writer.wait(3)
    assert writer.written[2] == ("default", "train", "pod-train", "node-0", True)


def test_allocation_that_the_scheduler_gave_up_is_dropped(rescheduler: Rescheduler, writer: FakeWriter) -> None:
    rescheduler.nominate(POD, "node-0", "uid-train")
    rescheduler.given_up(read_claim(objects.claim("other")))
    rescheduler.given_up(read_claim(CLAIM))
    writer.wait(2)
    assert writer.dropped == ["uid-train"]


def test_allocation_that_cannot_be_dropped_is_left_to_the_scheduler(rescheduler: Rescheduler,
                                                                    writer: FakeWriter) -> None:
    rescheduler.nominate(POD, "node-0", "uid-train")
    writer.alive = Forbidden(403, "Forbidden", "no")
    rescheduler.given_up(read_claim(CLAIM))
    writer.wait(2)
    assert rescheduler.under_way() == 1


@pytest.mark.parametrize("bound", [("DELETED", ""), ("MODIFIED", "node-0")], ids=["leaves the watch", "stays in it"])
def test_bound_pod_is_nominated_no_more(
    rescheduler: Rescheduler, writer: FakeWriter, threads: Threads, bound: tuple[str, str]
) -> None:
    rescheduler.nominate(POD, "node-0", "uid-train")
    raw = objects.pod("train")
    raw["spec"]["nodeName"] = bound[1]
    rescheduler.pod_changed(Change(bound[0], PODS, pods.read(raw)))
    assert rescheduler.under_way() == 0
    seen(rescheduler)
    threads.cancel()
    assert len(writer.written) == 1


def test_pod_that_is_gone_is_not_steered_any_more(rescheduler: Rescheduler, writer: FakeWriter) -> None:
    writer.alive = False
    rescheduler.nominate(POD, "node-0", "uid-train")
    assert rescheduler.under_way() == 0


def test_new_course_replaces_the_old(rescheduler: Rescheduler, writer: FakeWriter) -> None:
    rescheduler.nominate(POD, "node-0", "uid-train")
    rescheduler.nominate(POD, "node-1", "uid-train")
    assert [w[3] for w in writer.written] == ["node-0", "node-1"]
    assert rescheduler.under_way() == 1


def test_course_ends_after_its_time(rescheduler: Rescheduler, writer: FakeWriter,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(f"{Rescheduler.__module__}.time.monotonic", lambda: now[0])
    rescheduler.nominate(POD, "node-0", "uid-train")
    now[0] += 59
    rescheduler.renew("pod-train")
    assert (len(writer.written), rescheduler.under_way()) == (2, 1)
    now[0] += 2
    rescheduler.renew("pod-train")
    assert (len(writer.written), rescheduler.under_way()) == (2, 0)


def test_refusal_stops_nothing_and_is_tried_again_at_the_next_sight(rescheduler: Rescheduler,
                                                                    writer: FakeWriter) -> None:
    writer.alive = Forbidden(403, "Forbidden", "no")
    with contextlib.suppress(ApiError):
        rescheduler.nominate(POD, "node-0", "uid-train")
    assert rescheduler.under_way() == 1
    writer.alive = True
    seen(rescheduler)
    writer.wait(2)


def test_refusal_is_not_repeated_at_once(rescheduler: Rescheduler, writer: FakeWriter, threads: Threads) -> None:
    writer.alive = Forbidden(403, "Forbidden", "no")
    with contextlib.suppress(ApiError):
        rescheduler.nominate(POD, "node-0", "uid-train")
        rescheduler.renew("pod-train")
    threads.cancel()
    assert len(writer.written) == 2


def test_nothing_is_nominated_after_the_stop(rescheduler: Rescheduler, writer: FakeWriter, threads: Threads) -> None:
    rescheduler.nominate(POD, "node-0", "uid-train")
    threads.cancel()
    seen(rescheduler)
    rescheduler.deallocated(read_claim(CLAIM))
    assert len(writer.written) == 1
