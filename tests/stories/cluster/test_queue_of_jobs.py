# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs wait in a queue. Each of them starts when all its devices are attached."""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.tests.chaos import faults
from ansible_collections.composable.infra.tests.chaos.models.kueue import FINISHED, QUEUED, REJECTED
from ansible_collections.composable.infra.tests.chaos.workload import Job
from ansible_collections.composable.infra.tests.stories.ground import GATED, Ground, telling
from ansible_collections.composable.infra.tests.unit.planning.builders import A100


def job(name: str, count: int = 1, devices: int = 1, seconds: float = 10.0) -> Job:
    """A Job of the team."""
    return Job(name, GATED, A100, count, devices, seconds)


def condition(story: Ground, of: Job, name: str) -> str:
    """Return the message of a condition of the Job's request, empty if the condition is absent."""
    raw = story.world.server.find("provisioningrequests", of.request, of.namespace) or {}
    return next((each["message"] for each in (raw.get("status") or {}).get("conditions") or () if each["type"] == name),
                "")


def test_job_of_eight_pods_starts_when_sixteen_devices_are_attached_and_a_larger_one_holds_nothing() -> None:
    with telling(nodes=4, devices={A100: 16}, queue=100) as story:
        # A Job of eight pods with two GPUs each. No pod exists before all GPUs are attached.
        train = job("train", count=8, devices=2, seconds=30.0)
        story.world.kueue.submit(train)
        story.wait("the pods exist", lambda: story.pod("train-0"))
        assert len(story.devices()) == 16

        # A second Job does not fit. It waits with its reason, and holds no device.
        other = job("other", count=2, devices=2)
        story.world.kueue.submit(other)
        story.wait("its reason", lambda: condition(story, other, "Provisioned"))
        assert f"had no free {A100}" in condition(story, other, "Provisioned")
        story.wait("the first Job runs", lambda: all(story.runs(name) for name in train.pods), 60.0)
        assert len(story.devices()) == 16

        # The first Job ends. The second one uses its devices, and then all of them return.
        attached = len(story.asked("attached"))
        story.wait("both Jobs end", lambda: other.state == FINISHED, 120.0)
        assert train.state == FINISHED
        assert len(story.asked("attached")) == attached
        story.wait("all devices are free", story.all_returned, 120.0)
        assert story.problems() == []


def test_queue_over_a_fabric_for_two_at_a_time_serves_all_in_turn() -> None:
    with telling(nodes=3, devices={A100: 4}, queue=4) as story:
        jobs = [job(f"job-{number}", devices=2, seconds=5.0) for number in range(6)]
        for each in jobs:
            story.world.kueue.submit(each)
        story.wait("all Jobs end", lambda: all(each.state == FINISHED for each in jobs), 200.0)
        story.wait("all devices are free", story.all_returned, 120.0)


def test_leader_dies_while_devices_are_attached_and_kept() -> None:
    with telling(nodes=3, devices={A100: 4}, queue=100, attach=4.0, replicas=2) as story:
        train = job("train", count=2, devices=2)
        story.world.kueue.submit(train)
        story.wait("the request is booked", lambda: condition(story, train, "Provisioned"))
        faults.DO["kill"](story.world, {})
        story.wait("the Job runs", lambda: train.running_since, 120.0)
        assert len(story.asked("attached")) == 4


def test_nobody_comes_and_the_devices_return() -> None:
    with telling(nodes=2, devices={A100: 2}, queue=100) as story:
        train = job("train")
        story.world.kueue.submit(train)
        story.wait("the request is made", lambda: story.world.server.find("provisioningrequests", train.request, GATED))
        story.world.kueue.jobs.clear()  # Kueue stops before it has seen that the devices are attached
        story.wait("the devices are attached", lambda: condition(story, train, "Provisioned").endswith("Z"))
        story.let_pass(590.0)
        assert len(story.devices()) == 1
        story.wait("the booking ends", lambda: condition(story, train, "BookingExpired"), 30.0)
        story.wait("all devices are free", story.all_returned, 120.0)


def test_job_goes_elsewhere_when_its_node_is_cordoned_while_the_device_comes() -> None:
    with telling(nodes=2, devices={A100: 2}, queue=100, attach=4.0) as story:
        train = job("train")
        story.world.kueue.submit(train)
        story.wait("the device is requested", lambda: story.asked("asked"))
        first = next(iter(story.resources().values()))["spec"]["target_node"]
        story.world.server.update("nodes", first, "", {"spec": {"unschedulable": True}})
        story.wait("the Job runs", lambda: train.running_since, 120.0)
        assert pods.bound(story.pod("train-0") or {}) not in ("", first)
        story.wait("the Job ends", lambda: train.state == FINISHED, 60.0)


def test_node_that_is_cordoned_before_the_pods_come_ends_the_job() -> None:
    with telling(nodes=2, devices={A100: 2}, queue=100) as story:
        train = job("train")
        story.world.kueue.submit(train)
        story.wait("the request is made", lambda: story.world.server.find("provisioningrequests", train.request, GATED))
        story.world.kueue.jobs.clear()  # Kueue is slow to see that the devices are attached
        story.wait("the devices are attached", lambda: condition(story, train, "Provisioned").endswith("Z"))
        (node,) = {raw["spec"]["target_node"] for raw in story.resources().values()}
        story.world.server.update("nodes", node, "", {"spec": {"unschedulable": True}})
        story.wait("the capacity is revoked", lambda: condition(story, train, "CapacityRevoked"), 30.0)
        story.world.kueue.submit(train)
        story.wait("the Job is told", lambda: train.state == REJECTED, 30.0)
        assert node in train.message
        assert story.pod("train-0") is None
        story.wait("the device is free", story.all_returned, 120.0)


def test_request_that_failed_is_tried_again_after_the_back_off() -> None:
    with telling(nodes=2, devices={A100: 2}, queue=2) as story:
        story.world.server.update("namespaces", GATED, "", {"metadata": {"labels": {pods.OPT: None}}})
        train = job("train")
        story.world.kueue.submit(train)
        story.wait("the first request fails", lambda: train.attempt == 2)
        assert pods.OPT in train.message
        assert (train.state, story.asked("asked")) == (QUEUED, [])
        story.world.server.update("namespaces", GATED, "", {"metadata": {"labels": {pods.OPT: "true"}}})
        assert story.wait("the Job runs", lambda: train.running_since) > 50.0
        story.wait("the Job ends", lambda: train.state == FINISHED, 60.0)
        story.wait("all devices are free", story.all_returned, 120.0)
