# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for Kueue with one queue and a ProvisioningRequest check.

It does for suspended Jobs what ``pkg/controller/admissionchecks/provisioning/controller.go`` of
kubernetes-sigs/kueue does: it creates PodTemplate and ProvisioningRequest (``createPodTemplate``,
``syncOwnedProvisionRequest``), follows the conditions in the order of ``syncCheckStates``, adds the
annotations of ``podSetUpdates``, and deletes the request when the Job is finished. The quota is a
number of devices, given in the order of creation (``StrictFIFO``). It has no flavors, cohorts,
fair sharing or preemption.
"""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable
from dataclasses import dataclass

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    RESOURCE_CLAIM_TEMPLATES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import AlreadyExists, ApiError, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import provisioning_requests

Json = dict[str, t.Any]
JOBS = ApiResource("batch/v1", "jobs", "Job", True)
QUEUE = "kueue.x-k8s.io/queue-name"
CLASS_NAME = "autoscaling.x-k8s.io/provisioning-class-name"
# ``provisioningrequestconfig_types.go``: defaults of the retry strategy.
BACKOFF_LIMIT, BACKOFF_BASE, BACKOFF_MOST = 3, 60.0, 1800.0
PERIOD = 0.1


@dataclass
class Check:
    """The check of one Job: its attempt, when the next one begins, and why it was rejected."""

    attempt: int = 1
    not_before: float = 0.0
    rejected: str = ""


class JobQueue:
    """Serves the Jobs of a namespace with the label of a queue, in a thread until ``stop``.

    ``quota``: devices that admitted Jobs and Jobs with a request may have together. ``say``:
    receives what happens. ``text()`` returns errors, like the log of a process.
    """

    name = "queue"

    def __init__(self, client: Client, quota: int, say: Callable[[str], None], namespace: str = "default") -> None:
        self._client, self._quota, self._say, self._namespace = client, quota, say, namespace
        self._checks: dict[str, Check] = {}
        self._said: dict[str, str] = {}
        self._errors: list[str] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queue", daemon=True)
        self._thread.start()

    def text(self) -> str:
        """Return the errors so far."""
        return "\n".join(self._errors[-100:])

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stopped.wait(PERIOD):
            try:
                self._look()
            except ApiError as error:
                self._errors.append(str(error))

    def _look(self) -> None:
        jobs = [job for job in self._client.list(JOBS, self._namespace).items
                if QUEUE in (job["metadata"].get("labels") or {})]
        jobs.sort(key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]))
        requests = {each["metadata"]["name"]: each
                    for each in self._client.list(PROVISIONING_REQUESTS, self._namespace).items}
        left = self._quota
        for job in jobs:
            check = self._checks.setdefault(job["metadata"]["uid"], Check())
            request = requests.get(self._request(job, check))
            if _finished(job):
                self._delete(request)
            elif not check.rejected:
                left -= self._devices(job)
                if not job["spec"].get("suspend"):
                    self._follow(job, check, request)
                elif request is not None:
                    self._sync(job, check, request)
                elif left >= 0 and time.monotonic() >= check.not_before:
                    self._create(job, check)

    def _request(self, job: Json, check: Check) -> str:
        return f"job-{job['metadata']['name']}-devices-{check.attempt}"

    def _devices(self, job: Json) -> int:
        """Return the devices that the claims of all its pods request."""
        found = 0
        for entry in job["spec"]["template"]["spec"].get("resourceClaims") or ():
            template = self._client.get(RESOURCE_CLAIM_TEMPLATES, entry["resourceClaimTemplateName"], self._namespace)
            found += sum(each["exactly"].get("count", 1) for each in template["spec"]["spec"]["devices"]["requests"])
        return found * int(job["spec"]["parallelism"])

    def _create(self, job: Json, check: Check) -> None:
        name, template = self._request(job, check), dict(job["spec"]["template"])
        meta = {"name": f"ppt-{name}-main", "namespace": self._namespace}
        try:
            self._client.create(POD_TEMPLATES, {"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta,
                                                "template": template})
        except AlreadyExists:
            self._errors.append(f"PodTemplate {meta['name']} is there already")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"],
                 "uid": job["metadata"]["uid"], "controller": True}
        self._client.create(PROVISIONING_REQUESTS, {
            "apiVersion": PROVISIONING_REQUESTS.group_version, "kind": "ProvisioningRequest",
            "metadata": {"name": name, "namespace": self._namespace, "ownerReferences": [owner]},
            "spec": {"provisioningClassName": provisioning_requests.CLASS,
                     "podSets": [{"podTemplateRef": {"name": meta["name"]}, "count": job["spec"]["parallelism"]}]}})
        self._tell(job, f"has quota, creates ProvisioningRequest {name}")

    def _sync(self, job: Json, check: Check, request: Json) -> None:
        """Act on the conditions in the order of ``syncCheckStates``."""
        said = {each["type"]: each for each in (request.get("status") or {}).get("conditions") or ()}
        true = {name for name, each in said.items() if each["status"] == "True"}
        retried = next((name for name in ("Failed", "BookingExpired") if name in true), "")
        if "Failed" not in true and "CapacityRevoked" in true:
            self._reject(job, check, said["CapacityRevoked"]["message"])
        elif retried:
            self._retry(job, check, request, said[retried]["message"])
        elif "Provisioned" in true:
            self._admit(job, request, said["Provisioned"]["message"])
        elif "Accepted" in true and "Provisioned" in said:
            self._tell(job, f"waits without pods: {said['Provisioned']['message']}")

    def _follow(self, job: Json, check: Check, request: Json | None) -> None:
        """Stop an admitted Job when its capacity is revoked."""
        conditions = ((request or {}).get("status") or {}).get("conditions") or ()
        revoked = [each["message"] for each in conditions
                   if each["type"] == "CapacityRevoked" and each["status"] == "True"]
        if revoked:
            self._client.merge_patch(JOBS, job["metadata"]["name"], {"spec": {"suspend": True}}, self._namespace)
            self._reject(job, check, revoked[0])

    def _retry(self, job: Json, check: Check, request: Json, message: str) -> None:
        if check.attempt > BACKOFF_LIMIT:
            self._reject(job, check, message)
            return
        self._delete(request)
        check.not_before = time.monotonic() + min(BACKOFF_MOST, BACKOFF_BASE * 2 ** (check.attempt - 1))
        check.attempt += 1
        self._tell(job, f"is tried again later: {message}")

    def _reject(self, job: Json, check: Check, message: str) -> None:
        check.rejected = message
        self._tell(job, f"is rejected: {message}")

    def _admit(self, job: Json, request: Json, message: str) -> None:
        """Start the Job. Its pods name the request, as ``podSetUpdates`` says."""
        notes = {provisioning_requests.CONSUMES: request["metadata"]["name"], CLASS_NAME: provisioning_requests.CLASS}
        patch = {"metadata": {"uid": job["metadata"]["uid"]},
                 "spec": {"suspend": False, "template": {"metadata": {"annotations": notes}}}}
        self._client.merge_patch(JOBS, job["metadata"]["name"], patch, self._namespace)
        self._tell(job, f"is admitted: {message}")

    def _delete(self, request: Json | None) -> None:
        if request is not None and not request["metadata"].get("deletionTimestamp"):
            for kind, name in ((PROVISIONING_REQUESTS, request["metadata"]["name"]),
                               (POD_TEMPLATES, f"ppt-{request['metadata']['name']}-main")):
                try:
                    self._client.delete(kind, name, self._namespace)
                except NotFound:
                    continue

    def _tell(self, job: Json, what: str) -> None:
        name = job["metadata"]["name"]
        if self._said.get(name) != what:
            self._said[name] = what
            self._say(f"Job {name} {what}")


def _finished(job: Json) -> bool:
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True"
               for each in (job.get("status") or {}).get("conditions") or ())
