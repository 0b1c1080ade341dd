# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Lease that shows that a node has an agent.

No other process competes for it, so the agent just writes it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import LEASES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.agent_leases import (
    AGENT_LABELS,
    AGENT_LEASE,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import AlreadyExists, ApiError, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_micro_time
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_agents import PLACES, places_text

log = logging.getLogger("composable.infra")
RENEW_SECONDS = 30.0
DURATION_SECONDS = 90
RETRY_SECONDS = 5.0


class AgentLease:
    """The Lease of one agent.

    ``namespace``: of the Lease. ``node``: of the agent. ``clock``: returns seconds since the epoch.
    ``places``: returns the locations that all fabric devices of the node share, empty if they are
    not known.
    """

    def __init__(self, client: Client, namespace: str, node: str, clock: Callable[[], float] = time.time,
                 places: Callable[[], Mapping[str, str | int]] = dict) -> None:
        self._client, self._namespace, self._node, self._clock = client, namespace, node, clock
        self._places = places
        self.last_error = ""

    @property
    def name(self) -> str:
        """Name of the Lease."""
        return AGENT_LEASE + self._node

    def renew(self) -> float:
        """Renew the Lease. Return the seconds until the next renewal. Never raises ApiError."""
        try:
            self._write(self._node)
        except ApiError as error:
            if str(error) != self.last_error:
                log.warning("cannot renew the Lease %s: %s", self.name, error)
            self.last_error = str(error)
            return RETRY_SECONDS
        self.last_error = ""
        return RENEW_SECONDS

    def give_up(self) -> None:
        """Write that the agent has ended. Never raises ApiError."""
        try:
            self._client.merge_patch(LEASES, self.name, {"spec": {"holderIdentity": ""}}, self._namespace)
        except ApiError as error:
            log.warning("cannot give up the Lease %s, so it will expire: %s", self.name, error)

    def _write(self, holder: str) -> None:
        now = format_micro_time(self._clock())
        notes = {"annotations": {PLACES: places_text(self._places())}}
        body: Json = {"metadata": {"labels": AGENT_LABELS, **notes},
                      "spec": {"holderIdentity": holder, "renewTime": now, "leaseDurationSeconds": DURATION_SECONDS}}
        try:
            self._client.merge_patch(LEASES, self.name, body, self._namespace)
        except NotFound:
            self._create(body, now)

    def _create(self, body: Json, now: str) -> None:
        notes = {name: text for name, text in body["metadata"]["annotations"].items() if text is not None}
        made = {"apiVersion": LEASES.group_version, "kind": LEASES.kind,
                "metadata": {**body["metadata"], "annotations": notes, "name": self.name, "namespace": self._namespace},
                "spec": {**body["spec"], "acquireTime": now}}
        try:
            self._client.create(LEASES, made, self._namespace)
        except AlreadyExists:
            self._client.merge_patch(LEASES, self.name, body, self._namespace)
