# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Add and remove nodes by a job template of AWX. A workflow template can wait for an approval.

The job gets ``node_action`` (add or remove), ``node_group``, ``node_count`` and ``node_name`` as
extra variables. AWX itself keeps the order, as jobs that have not ended, so a restart orders
nothing twice. If a job fails, or its approval is denied, the process that launched it reports this
to the calls that wait for its nodes.

Source: AWX 24, ``/api/v2/job_templates/ID/launch/``, ``/api/v2/unified_jobs/``,
``/api/v2/workflow_approvals/ID/`` and ``/api/v2/workflow_jobs/ID/workflow_nodes/``.
"""

from __future__ import annotations

import json

from ansible_collections.composable.infra.controller.autoscaler.errors import ProviderError
from ansible_collections.composable.infra.controller.autoscaler.providers.http import Endpoint
from ansible_collections.composable.infra.controller.autoscaler.providers.node_provider import NodeProvider, Registered
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import BadSetting
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import NodeGroup

KINDS = ("job_templates", "workflow_job_templates")
WORKFLOW_JOBS = "workflow_jobs"
# The field of a launch's answer with the job's number, and the path of the job.
JOBS = {"workflow_job": WORKFLOW_JOBS, "job": "jobs"}
UNFINISHED = "new,pending,waiting,running"
ADD, REMOVE = "add", "remove"


def awx(group: NodeGroup, _client: Client, registered: Registered) -> NodeProvider:
    """Return the provider of a group.

    Its settings are ``endpoint``, ``token_path``, ``ca_path``, ``template`` (a number) and
    ``template_kind``. Raises BadSetting.
    """
    where = f"nodes.{group.id}.provider"
    number, kind = group.provider.get("template"), group.provider.get("template_kind", KINDS[0])
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise BadSetting(f"{where}.template", number, "must be the number of a template")
    if kind not in KINDS:
        raise BadSetting(f"{where}.template_kind", kind, f"must be one of {', '.join(KINDS)}")
    found = _Template(Endpoint(where, group.provider), f"/api/v2/{kind}/{number}", number, group.id, registered)
    return NodeProvider(found.coming, found.grow, found.shrink, failed=found.failed)


class _Template:
    """A template for one group."""

    def __init__(self, endpoint: Endpoint, path: str, number: int, group: str, registered: Registered) -> None:
        self._endpoint, self._path, self._number, self._group = endpoint, path, number, group
        self._registered = registered
        self._launched: list[tuple[str, int]] = []

    def coming(self) -> int:
        """Return how many nodes unfinished jobs add."""
        return sum(int(job.get("node_count") or 0) for job in self._unfinished() if job.get("node_action") == ADD)

    def grow(self, count: int) -> None:
        """Launch a job that adds ``count`` nodes."""
        answer = self._launch({"node_action": ADD, "node_group": self._group, "node_count": count})
        self._launched += [(kind, int(answer[key])) for key, kind in JOBS.items() if answer.get(key)]

    def failed(self) -> str:
        """Return why jobs failed to add nodes, each job once, empty for none."""
        told = []
        for kind, number in list(self._launched):
            status = str(self._endpoint.call("GET", f"/api/v2/{kind}/{number}/").get("status") or "")
            if status in UNFINISHED.split(","):
                continue
            self._launched.remove((kind, number))
            if status != "successful":
                told.append(f"{kind} {number} of AWX did not succeed: {self._denied(kind, number) or status}")
        return "; ".join(told)

    def _denied(self, kind: str, number: int) -> str:
        """Return which approval of a workflow was denied, or came too late. Empty for none."""
        if kind != WORKFLOW_JOBS:
            return ""
        listed = self._endpoint.call("GET", f"/api/v2/{kind}/{number}/workflow_nodes/?page_size=200")
        jobs = [(node.get("summary_fields") or {}).get("job") or {} for node in listed.get("results") or []]
        for job in jobs:
            if job.get("type") == "workflow_approval" and job.get("status") == "failed":
                late = self._endpoint.call("GET", f"/api/v2/workflow_approvals/{job['id']}/").get("timed_out")
                return f"the approval {job.get('name')} {'was not given in time' if late else 'was denied'}"
        return ""

    def shrink(self, node: str) -> None:
        """Launch a job that removes a node, unless such a job is running."""
        if not any(job.get("node_action") == REMOVE and job.get("node_name") == node for job in self._unfinished()):
            self._launch({"node_action": REMOVE, "node_group": self._group, "node_name": node, "node_count": 1})

    def _launch(self, variables: Json) -> Json:
        answer = self._endpoint.call("POST", f"{self._path}/launch/", {"extra_vars": variables})
        ignored = (answer.get("ignored_fields") or {}).get("extra_vars")
        if ignored:
            raise ProviderError(f"{self._endpoint.url}: template {self._number} ignores the variables "
                                f"{', '.join(sorted(ignored))}. Turn on Prompt on launch for its variables")
        return answer

    def _unfinished(self) -> list[Json]:
        """Return the variables of this group's jobs that have not ended."""
        found: list[Json] = []
        path = f"/api/v2/unified_jobs/?unified_job_template={self._number}&status__in={UNFINISHED}&page_size=200"
        for job in self._endpoint.call("GET", path).get("results") or []:
            try:
                variables = json.loads(job.get("extra_vars") or "{}")
            except ValueError:
                continue
            if isinstance(variables, dict) and variables.get("node_group") == self._group:
                found.append(variables)
        return found
