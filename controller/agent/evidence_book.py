# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The newest evidence of each device, and its way onto the ComposableResource."""

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

from .asks import Ask

Json = dict[str, t.Any]
log = logging.getLogger("composable.infra")


class EvidenceBook:
    """Only the agent writes this annotation, so what it has noted is newer than what a watch has seen. Thread-safe.

    Evidence is written by whoever calls ``write``; between two calls the newest replaces what was noted before it, so
    that no step of a burst needs a request of its own. ``noted(ask, before, evidence)`` is told each change.
    """

    def __init__(self, client: Client, resources: Store,
                 noted: Callable[[Ask, Evidence | None, Evidence], None]) -> None:
        self._client, self._resources, self._noted = client, resources, noted
        self._newest: dict[str, Evidence] = {}
        self._unwritten: dict[str, tuple[Ask, Evidence]] = {}
        self._lock = threading.Lock()

    def of(self, uid: str) -> Evidence | None:
        """What was noted about the ComposableResource with this uid by this process."""
        with self._lock:
            return self._newest.get(uid)

    def note(self, ask: Ask, evidence: Evidence) -> None:
        """Take it down, to be written soon."""
        with self._lock:
            before = self._newest.get(ask.uid) or ask.evidence
            self._newest[ask.uid] = evidence
            if evidence == before:
                return
            self._unwritten[ask.uid] = (ask, evidence)
        self._noted(ask, before, evidence)

    def forget(self, uid: str) -> None:
        """The ComposableResource is gone."""
        with self._lock:
            self._newest.pop(uid, None)
            self._unwritten.pop(uid, None)

    def write(self) -> bool:
        """Write what is not written yet; False when something is left for later. Never raises ApiError."""
        with self._lock:
            waiting, self._unwritten = self._unwritten, {}
        failed = [uid for uid, (ask, evidence) in waiting.items() if not self._write(ask, evidence)]
        with self._lock:
            for uid in failed:
                self._unwritten.setdefault(uid, waiting[uid])
        return not failed

    def _write(self, ask: Ask, evidence: Evidence) -> bool:
        """The uid is a precondition: another object of the same name is not about this device."""
        patch: Json = {"metadata": {"uid": ask.uid, "annotations": {NODE: evidence.to_json()}}}
        try:
            self._resources.upsert(self._client.merge_patch(COMPOSABLE_RESOURCES, ask.name, patch))
        except (NotFound, Conflict):
            self.forget(ask.uid)
        except ApiError as error:
            log.warning("the evidence of %s is not written: %s", ask.name, error, extra=ask.logged)
            return False
        return True
