# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make demo MODE=kueue``: Jobs wait in a queue until all their devices are attached.

A stand-in for Kueue serves the queue (``lab/queueing``).
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.front_doors import Process
from ansible_collections.composable.infra.lab.demo.stage import A100, WORK, Stage
from ansible_collections.composable.infra.lab.queueing.job_queue import JOBS, QUEUE, JobQueue
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
)

Json = dict[str, t.Any]
MODE = "kueue"
DEVICES = {A100: 4}
EXTRA = {"provisioning_requests": True}
# More quota than devices, so that the fabric and not the quota decides.
QUOTA = 8
# Pods and devices of each pod.
ASKED = {"train": (2, 2), "next": (2, 1), "large": (3, 2)}
# Limits for hangs.
START_SECONDS, RETURN_SECONDS = 60.0, 60.0


def claim_template(stage: Stage, devices: int) -> Json:
    """Return a ResourceClaimTemplate for so many devices."""
    exactly = {"deviceClassName": stage.driver, "allocationMode": "ExactCount", "count": devices}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"name": f"gpus-{devices}", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}}


def job(name: str, pods: int, devices: int) -> Json:
    """Return a suspended Job in the queue."""
    container = {"name": WORK, "image": "example.invalid/work:1", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": f"gpus-{devices}"}]}
    return {"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "namespace": "default", "labels": {QUEUE: "gpus"}},
            "spec": {"suspend": True, "parallelism": pods, "completions": pods, "template": {"spec": spec}}}


class Queued:
    """A controller that serves ProvisioningRequests, and a queue. ``page`` is the address of its page."""

    name = "queue"

    def __init__(self, stage: Stage, say: Callable[[str, str], None]) -> None:
        self._stage, self._say = stage, say
        self._controller: Process = front_doors.controller(stage, "--ui", "read-only")
        self._queue: JobQueue | None = None
        try:
            self.page = front_doors.page_address(self._controller)
            self._queue = JobQueue(stage.client, QUOTA, lambda what: say("queue", what))
        except BaseException:
            self.stop()
            raise

    def flow(self, expect: Callable[[str, Callable[[], bool], float], None], free: Callable[[], int]) -> None:
        """Run two Jobs after each other. A third one needs more devices than there are, and waits.

        ``free()`` returns the free devices of the fabric.
        """
        for devices in sorted({devices for _pods, devices in ASKED.values()}):
            self._stage.client.create(RESOURCE_CLAIM_TEMPLATES, claim_template(self._stage, devices))
        most = sum(DEVICES.values())
        for name, (pods, devices) in ASKED.items():
            self._say("user", f"creates Job {name} in the queue: {pods} pods with {devices} x {A100} each")
            self._stage.client.create(JOBS, job(name, pods, devices))
            if name == "train":
                expect("Job train has pods, and all its devices were attached before", lambda: self._has_pods("train")
                       and free() == most - 4, START_SECONDS)
        expect("Job train is finished", lambda: self._finished("train"), START_SECONDS)
        expect("Job next is finished", lambda: self._finished("next"), START_SECONDS)
        expect("Job large has no pod, and the devices are back in the fabric",
               lambda: free() == most and not self._has_pods("large"), RETURN_SECONDS)

    def _has_pods(self, name: str) -> bool:
        return any(each["metadata"]["name"].startswith(f"{name}-")
                   for each in self._stage.client.list(PODS, "default").items)

    def _finished(self, name: str) -> bool:
        status = self._stage.client.get(JOBS, name, "default").get("status") or {}
        return int(status.get("succeeded") or 0) == ASKED[name][0]

    def text(self) -> str:
        """Return the logs of both parts."""
        queue = self._queue.text() if self._queue else ""
        return f"queue:\n{queue}\ncontroller:\n{self._controller.text()[-3000:]}"

    def stop(self) -> None:
        """Stop the queue, then the controller."""
        if self._queue:
            self._queue.stop()
        self._controller.stop()
