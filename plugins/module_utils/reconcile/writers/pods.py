# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write nominations, scheduling gates and conditions of Pods."""

from __future__ import annotations

import contextlib

from ...kube.api_resources import PODS
from ...kube.errors import Conflict, NotFound
from ...kube.objects import pods
from ...kube.times import format_time
from ...planning.node.snapshot import PodRef
from .object_writer import ObjectWriter


class PodWriter(ObjectWriter):
    """Writes nominations, scheduling gates and conditions of Pods."""

    def nominate(self, namespace: str, pod: str, uid: str, node: str, anyway: bool = False) -> bool:
        """Nominate a pod for a node, or for none if empty. Return False if the pod is gone or
        already bound.

        Write nothing if the nomination is known to be there, unless ``anyway``.
        """
        known = None if anyway else self.state.pods.first_value("uid", uid)
        if known and known.nominated == node:
            return True
        body = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node or None}}
        try:
            answer = self.client.merge_patch(PODS, pod, body, namespace=namespace, subresource="status")
        except (NotFound, Conflict):
            return False
        if pods.held(answer):  # no other process acts on a gated pod, so this hides no event
            self.state.pods.upsert(answer)
        return not pods.bound(answer)

    def ungate(self, pod: PodRef) -> bool:
        """Remove our scheduling gate and no other. Return False if the pod is gone."""
        try:
            answer = self.client.strategic_patch(PODS, pod.name, pods.removal(pod.uid), namespace=pod.namespace)
        except (NotFound, Conflict):
            return False
        self.state.pods.upsert(answer)
        self.outlet.changes += 1
        return True

    def tell_not_served(self, pod: PodRef, reason: str) -> None:
        """Write the condition Served of a pod that was released without devices. Ignore one that is
        gone."""
        body = pods.not_served(pod.uid, reason, format_time(self.client.server_time()))
        with contextlib.suppress(NotFound, Conflict):
            self.state.pods.upsert(self.client.strategic_patch(PODS, pod.name, body, namespace=pod.namespace,
                                                               subresource="status"))
