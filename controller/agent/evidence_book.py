# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The newest evidence of each device, which is written on its ComposableResource."""

from __future__ import annotations

import logging
import threading
import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Conflict, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import NODE
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence

from .device_request import DeviceRequest

Json = dict[str, t.Any]
log = logging.getLogger("composable.infra")


class EvidenceBook:
    """The evidence of this process. Thread-safe.

    Only the agent writes this annotation, so the noted evidence is newer than what a watch has
    read. ``write`` writes the newest evidence, so that a burst of steps needs one request.
    ``noted(request, before, evidence)`` is called after each change.
    """

    def __init__(self, client: Client, resources: Store,
                 noted: Callable[[DeviceRequest, Evidence | None, Evidence], None]) -> None:
        self._client, self._resources, self._noted = client, resources, noted
        self._newest: dict[str, Evidence] = {}
        self._unwritten: dict[str, tuple[DeviceRequest, Evidence]] = {}
        self._lock = threading.Lock()

    def of(self, uid: str) -> Evidence | None:
        """Return the evidence that this process noted for the ComposableResource with this uid."""
        with self._lock:
            return self._newest.get(uid)

    def note(self, request: DeviceRequest, evidence: Evidence) -> None:
        """Note evidence, to be written soon."""
        with self._lock:
            before = self._newest.get(request.uid) or request.evidence
            self._newest[request.uid] = evidence
            if evidence == before:
                return
            self._unwritten[request.uid] = (request, evidence)
        self._noted(request, before, evidence)

    def forget(self, uid: str) -> None:
        """Forget a ComposableResource, which is gone."""
        with self._lock:
            self._newest.pop(uid, None)
            self._unwritten.pop(uid, None)

    def write(self) -> bool:
        """Write the evidence that is not written yet.

        Return False if some is left. Never raises ApiError.
        """
        with self._lock:
            waiting, self._unwritten = self._unwritten, {}
        failed = [uid for uid, (request, evidence) in waiting.items() if not self._write(request, evidence)]
        with self._lock:
            for uid in failed:
                self._unwritten.setdefault(uid, waiting[uid])
        return not failed

    def _write(self, request: DeviceRequest, evidence: Evidence) -> bool:
        """Write the evidence.

        The uid is a precondition, since a new object of this name has another device.
        """
        patch: Json = {"metadata": {"uid": request.uid, "annotations": {NODE: evidence.to_json()}}}
        try:
            self._resources.upsert(self._client.merge_patch(COMPOSABLE_RESOURCES, request.name, patch))
        except (NotFound, Conflict):
            self.forget(request.uid)
        except ApiError as error:
            log.warning("cannot write the evidence on ComposableResource %s: %s", request.name, error,
                        extra=request.logged)
            return False
        return True
