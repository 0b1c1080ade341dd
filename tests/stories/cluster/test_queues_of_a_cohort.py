# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ClusterQueues lend each other quota and take it back. The devices follow the quota."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.tests.chaos.models.cluster_queues import ClusterQueue, Cohort
from ansible_collections.composable.infra.tests.chaos.models.kueue import FINISHED, QUEUED
from ansible_collections.composable.infra.tests.chaos.workload import Job
from ansible_collections.composable.infra.tests.stories.cluster.test_queue_of_jobs import condition
from ansible_collections.composable.infra.tests.stories.ground import GATED, Ground, device_of, node_of, telling
from ansible_collections.composable.infra.tests.unit.planning.builders import A100

TWO_QUEUES = Cohort({"red": ClusterQueue(2), "blue": ClusterQueue(2)})


def job(name: str, queue: str = "main", count: int = 1, devices: int = 1, seconds: float = 10.0, priority: int = 0,
        topology: tuple[str, ...] = ()) -> Job:
    """A Job of the team in a queue."""
    return Job(name, GATED, A100, count, devices, seconds, queue, priority, topology)


def submit(story: Ground, *jobs: Job) -> None:
    """Users create Jobs."""
    for each in jobs:
        story.world.kueue.submit(each)


def all_end(story: Ground, *jobs: Job, within: float = 200.0) -> None:
    """All Jobs end, and then all devices are free."""
    story.wait("all Jobs end", lambda: all(each.state == FINISHED for each in jobs), within)
    story.wait("all devices are free", story.all_returned, 120.0)
    assert story.problems() == []


def test_queue_borrows_what_the_other_does_not_use() -> None:
    with telling(nodes=4, devices={A100: 4}, queue=1) as story:
        story.world.kueue.cohort = TWO_QUEUES
        wide = job("wide", "red", count=2, devices=2)
        submit(story, wide)
        story.wait("the Job runs with all four devices", lambda: wide.running_since)
        assert len(story.devices()) == 4
        all_end(story, wide)


def test_limit_of_borrowing_keeps_a_job_waiting_without_a_request() -> None:
    with telling(nodes=4, devices={A100: 4}, queue=1) as story:
        story.world.kueue.cohort = Cohort({"red": ClusterQueue(2, 1), "blue": ClusterQueue(2)})
        wide, small = job("wide", "red", count=2, devices=2), job("small", "blue")
        submit(story, wide, small)
        story.wait("the small Job ends", lambda: small.state == FINISHED)
        assert wide.state == QUEUED
        assert story.world.server.find("provisioningrequests", wide.request, GATED) is None
        story.wait("all devices are free", story.all_returned, 120.0)


@pytest.mark.parametrize("when", ["its devices are on their way", "its devices are kept", "its pods run"])
def test_queue_takes_its_quota_back_and_the_devices_go_to_its_job(when: str) -> None:
    """The Job that borrowed is evicted, and its request deleted. Later it gets a request of the same name."""
    with telling(nodes=4, devices={A100: 4}, queue=1, attach=4.0) as story:
        kueue = story.world.kueue
        kueue.cohort = TWO_QUEUES
        wide, owner = job("wide", "red", count=2, devices=2), job("owner", "blue", count=2)
        submit(story, wide)
        if when == "its devices are on their way":
            story.wait("devices are requested", lambda: story.asked("asked"))
        elif when == "its devices are kept":
            story.wait("its devices are on their way", lambda: story.asked("asked"))
            story.wait("its devices are attached", lambda: len(story.devices()) == 4)
        else:
            story.wait("its pods run", lambda: wide.running_since)
        submit(story, owner)
        story.wait("the owner runs", lambda: owner.running_since, 60.0)
        assert wide.state == QUEUED, "it was preempted"
        assert not any(story.runs(name) for name in wide.pods)
        all_end(story, wide, owner)
        assert len(story.asked("attached")) <= 8, "no device goes back and forth"


def test_higher_priority_of_the_same_queue_preempts() -> None:
    with telling(nodes=2, devices={A100: 2}, queue=2) as story:
        low, high = job("low", count=2, seconds=60.0), job("high", count=2, priority=10)
        submit(story, low)
        story.wait("the first Job runs", lambda: low.running_since)
        submit(story, high)
        story.wait("the other one runs instead", lambda: high.running_since, 60.0)
        assert low.state == QUEUED
        all_end(story, low, high, within=300.0)


def test_fair_sharing_serves_the_queue_that_borrows_less_first() -> None:
    with telling(nodes=4, devices={A100: 4}, queue=1) as story:
        story.world.kueue.cohort = Cohort({"red": ClusterQueue(1), "blue": ClusterQueue(1), "none": ClusterQueue(2)},
                                          fair=True)
        jobs = [job(f"red-{number}", "red", seconds=20.0) for number in range(6)]
        late = job("blue", "blue", devices=2)
        submit(story, *jobs[:3])
        story.wait("three Jobs run", lambda: all(each.running_since for each in jobs[:3]))
        submit(story, *jobs[3:], late)
        story.wait("the other queue is next", lambda: late.running_since, 120.0)
        assert sum(bool(each.running_since) for each in jobs) <= 4
        all_end(story, *jobs, late, within=400.0)


def test_kueue_that_leaves_the_request_of_an_evicted_job_lets_its_devices_go_when_the_booking_ends() -> None:
    """Before 0.19 the request of an evicted Job stays. It keeps its devices for ten minutes."""
    with telling(nodes=2, devices={A100: 2}, queue=2) as story:
        kueue = story.world.kueue
        kueue.cleans = False
        low = job("low", count=2)
        submit(story, low)
        story.wait("the devices are attached", lambda: len(story.devices()) == 2)
        story.wait("the request is provisioned", lambda: condition(story, low, "Provisioned").endswith("Z"))
        kueue.jobs.clear()
        kueue._evict(low)
        story.let_pass(500.0)
        assert len(story.devices()) == 2
        story.wait("the booking ends", lambda: condition(story, low, "BookingExpired"), 120.0)
        story.wait("all devices are free", story.all_returned, 120.0)


def attached_to(story: Ground, count: int) -> set[str]:
    """Wait until so many devices are attached, and return their nodes."""
    story.wait("the devices are attached", lambda: len([*filter(device_of, story.resources().values())]) == count)
    return {node_of(raw) for raw in story.resources().values()}


class TestTopology:
    """Kueue chooses the nodes of the pods when the devices are attached, and knows nothing of devices."""

    def test_pods_that_get_the_nodes_of_the_devices_run_at_once(self) -> None:
        with telling(nodes=2, devices={A100: 2}, queue=100) as story:
            train = job("train", count=2, topology=("none",))
            submit(story, train)
            nodes = attached_to(story, 2)
            train.topology = tuple(sorted(nodes))
            story.wait("the Job runs", lambda: train.running_since)
            assert {pods.bound(story.pod(name) or {}) for name in train.pods} == nodes
            all_end(story, train)
            assert len(story.asked("attached")) == 2

    def test_pod_on_another_node_takes_the_place_of_its_device(self) -> None:
        """All devices of the fabric are attached where they are not needed. They move to the pods."""
        with telling(nodes=4, devices={A100: 2}, queue=100) as story:
            train = job("train", count=2, topology=("none", "none"))
            submit(story, train)
            booked = attached_to(story, 2)
            others = [node.name for node in story.world.nodes if node.name not in booked][:2]
            train.topology = tuple(others)
            story.wait("the Job runs", lambda: train.running_since, 120.0)
            assert {pods.bound(story.pod(name) or {}) for name in train.pods} == {*others}
            all_end(story, train)
            assert len(story.asked("attached")) == 4
