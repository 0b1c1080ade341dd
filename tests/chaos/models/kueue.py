# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model of Kueue: a queue of Jobs with a quota of devices and a ProvisioningRequest check.

It does what ``pkg/controller/admissionchecks/provisioning/controller.go`` of kubernetes-sigs/kueue
does with the conditions of a request (``syncCheckStates``): Failed and BookingExpired are retried
after a back-off, at most ``BackoffLimitCount`` times, then the Job is rejected. CapacityRevoked
rejects it at once. Provisioned admits it, and its pods get the annotation of ``podSetUpdates``.
``cluster_queues`` chooses the next Job and those to preempt.

A preempted Job is evicted: its pods are deleted, and its request with
``CleanupProvisioningRequestsOnEviction`` (``Reconcile`` there, on by default since 0.19). It gets the
same name when the Job has quota again. Topology-aware scheduling assigns nodes after the check is
ready (``podSetTopologyRequest`` in ``pkg/scheduler/flavorassigner/tas_flavorassigner.go``), by the
resources of nodes. It does not consider devices. Then the gate of its pods is removed, with the node
selector in the same patch (``pkg/controller/tas/topology_ungater.go``). Here a story names the nodes.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods, provisioning_requests
from ansible_collections.composable.infra.tests.chaos import workload
from ansible_collections.composable.infra.tests.chaos.models.api_server import ApiServer, Refusal
from ansible_collections.composable.infra.tests.chaos.models.cluster_queues import Cohort
from ansible_collections.composable.infra.tests.chaos.models.patches import Json
from ansible_collections.composable.infra.tests.chaos.simulation import stand_ins
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Process, Simulation
from ansible_collections.composable.infra.tests.chaos.workload import Job

if t.TYPE_CHECKING:
    from ansible_collections.composable.infra.tests.chaos.world import World

# ``provisioningrequestconfig_types.go``: defaults of ProvisioningRequestRetryStrategy.
BACKOFF_LIMIT, BACKOFF_BASE, BACKOFF_MOST = 3, 60.0, 1800.0
PERIOD = 0.5
TOPOLOGY = "kueue.x-k8s.io/topology"
HOSTNAME = "kubernetes.io/hostname"
QUEUED, REQUESTED, ADMITTED, FINISHED, REJECTED = "queued", "requested", "admitted", "finished", "rejected"


@dataclass
class Kueue:
    """``cleans``: the feature gate CleanupProvisioningRequestsOnEviction. ``evicted``: devices of Jobs
    that were preempted.
    """

    world: World
    cohort: Cohort
    cleans: bool = True
    evicted: int = 0
    jobs: list[Job] = field(default_factory=list)
    process: Process = field(default_factory=lambda: Process("kueue"))

    def start(self) -> None:
        """Start the process."""
        self.simulation.spawn(self.process, "kueue", self._run)

    @property
    def simulation(self) -> Simulation:
        """Return the simulation of the world."""
        return self.world.simulation

    @property
    def server(self) -> ApiServer:
        """Return the API server of the world."""
        return self.world.server

    def submit(self, job: Job) -> None:
        """Add a Job to the queue."""
        self.jobs.append(job)

    def stop_all(self) -> None:
        """Delete all Jobs with their pods and requests."""
        for job in self.jobs:
            self._end(job, FINISHED)

    def _run(self) -> None:
        while True:
            stand_ins.Event().wait(PERIOD)
            self._cycle()
            for job in self.jobs:
                if job.state != QUEUED:
                    {REQUESTED: self._check, ADMITTED: self._follow}.get(job.state, self._clean_up)(job)

    def _cycle(self) -> None:
        """Give quota to the Jobs that are next, or preempt others for them."""
        waiting = [job for job in self.jobs if job.state == QUEUED]
        reserved = [job for job in self.jobs if job.state in (REQUESTED, ADMITTED)]
        for job in self.cohort.order(waiting, reserved):
            if self.simulation.now < job.not_before:
                continue
            if self.cohort.fits(job, reserved):
                self._request(job)
                reserved.append(job)
            elif victims := self.cohort.victims(job, reserved):
                for victim in victims:
                    self._evict(victim)
                    reserved.remove(victim)
                reserved.append(job)  # no other Job of this cycle gets what it waits for

    def _evict(self, job: Job) -> None:
        for name in job.pods:
            workload.delete(self.world, name, job.namespace)
        if self.cleans:
            self._delete("provisioningrequests", job.request, job.namespace)
        job.state, job.running_since, job.message = QUEUED, 0.0, "preempted"
        self.evicted += job.size

    def _request(self, job: Job) -> None:
        template = f"ppt-{job.request}-main"
        self._create("resourceclaimtemplates", job.namespace, {
            "metadata": {"name": job.name}, "spec": {"spec": workload.claim_spec(job.model, job.devices)}})
        spec = {"schedulerName": "default-scheduler", "containers": [{"name": "c"}],
                "resourceClaims": [{"name": "first", "resourceClaimTemplateName": job.name}]}
        self._create("podtemplates", job.namespace, {"metadata": {"name": template}, "template": {"spec": spec}})
        self._create("provisioningrequests", job.namespace, {
            "metadata": {"name": job.request}, "spec": {
                "provisioningClassName": provisioning_requests.CLASS,
                "podSets": [{"podTemplateRef": {"name": template}, "count": job.count}]}})
        job.state, job.reserved_at = REQUESTED, self.simulation.now

    def _check(self, job: Job) -> None:
        """Act on the conditions in the order of ``syncCheckStates``."""
        raw = self.server.find("provisioningrequests", job.request, job.namespace)
        if raw is None:  # lost by a restore of etcd: the check creates it again
            job.state = QUEUED
            return
        true = {each["type"]: each["message"] for each in (raw.get("status") or {}).get("conditions") or ()
                if each["status"] == "True"}
        retried = next((name for name in ("Failed", "BookingExpired") if name in true), "")
        if "Failed" not in true and "CapacityRevoked" in true:
            self._end(job, REJECTED, true["CapacityRevoked"])
        elif retried:
            self._retry(job, true[retried])
        elif "Provisioned" in true:
            job.state = ADMITTED
            self._follow(job)

    def _retry(self, job: Job, message: str) -> None:
        if job.attempt > BACKOFF_LIMIT:
            self._end(job, REJECTED, message)
            return
        self._delete("provisioningrequests", job.request, job.namespace)
        job.not_before = self.simulation.now + min(BACKOFF_MOST, BACKOFF_BASE * 2 ** (job.attempt - 1))
        job.attempt, job.state, job.message = job.attempt + 1, QUEUED, message

    def _follow(self, job: Job) -> None:
        raw = self.server.find("provisioningrequests", job.request, job.namespace)
        found = [self._pod(job, name) for name in job.pods]
        if raw is not None and any(each["type"] == "CapacityRevoked" and each["status"] == "True"
                                   for each in (raw.get("status") or {}).get("conditions") or ()):
            self._end(job, REJECTED, "CapacityRevoked")
        elif all(pod is not None and pods.phase(pod) == "Running" for pod in found):
            job.running_since = job.running_since or self.simulation.now
            if self.simulation.now >= job.running_since + job.seconds:
                self._end(job, FINISHED)

    def _pod(self, job: Job, name: str) -> Json | None:
        """Return a pod of a Job. Create a missing one, as the Job controller does."""
        found = self.server.find("pods", name, job.namespace)
        if found is None and self.server.find("resourceclaims", f"{name}-first", job.namespace) is None:
            workload.create_pod(self.world, name, job.namespace, [("first", job.model, job.devices)],
                                {provisioning_requests.CONSUMES: job.request}, gates=[TOPOLOGY] if job.topology else [])
        elif found is not None and TOPOLOGY in pods.foreign(found):
            self._ungate(job, found)
        return found

    def _ungate(self, job: Job, pod: Json) -> None:
        """Choose the node of a pod, and remove its topology gate."""
        number = job.pods.index(pod["metadata"]["name"])
        gates = [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] != TOPOLOGY]
        selector = {HOSTNAME: job.topology[number % len(job.topology)]}
        self.server.update("pods", pod["metadata"]["name"], job.namespace,
                           {"spec": {"schedulingGates": gates or None, "nodeSelector": selector}})

    def _clean_up(self, job: Job) -> None:
        """Delete what a restore of etcd brought back of a Job that is over."""
        self._end(job, job.state)

    def _end(self, job: Job, state: str, message: str = "") -> None:
        for name in job.pods:
            workload.delete(self.world, name, job.namespace)
        self._delete("provisioningrequests", job.request, job.namespace)
        if not job.over:
            job.state, job.message = state, message

    def _create(self, plural: str, namespace: str, body: Json) -> None:
        if self.server.find(plural, body["metadata"]["name"], namespace) is None:
            self.server.create(plural, body, namespace)

    def _delete(self, plural: str, name: str, namespace: str) -> None:
        try:
            self.server.delete(plural, name, namespace)
        except Refusal:
            return
