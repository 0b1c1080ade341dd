# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gRPC methods that the kubelet calls.

Each claim of a call gets its own answer or its own error.
"""

from __future__ import annotations

import logging
import typing as t

from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError

from .errors import Refused
from .preparation import Preparation
from .wire import dra_pb2
from .wire.rpc import Method

log = logging.getLogger("composable.infra")


class PluginService:
    """Answer the kubelet.

    An error of a claim is part of the answer, and the kubelet calls again.
    """

    def __init__(self, preparation: Preparation) -> None:
        self._preparation = preparation

    def methods(self) -> dict[str, Method]:
        """Return the service's methods by name."""
        return {"NodePrepareResources": self._prepare_all, "NodeUnprepareResources": self._unprepare_all}

    def _prepare_all(self, request: t.Any, _context: object) -> t.Any:
        answer = dra_pb2.NodePrepareResourcesResponse()
        for claim in request.claims:
            try:
                answer.claims[claim.uid].devices.extend(self._prepare(claim))
            except Exception as error:
                answer.claims[claim.uid].error = _said("prepare", claim, error)
        return answer

    def _unprepare_all(self, request: t.Any, _context: object) -> t.Any:
        answer = dra_pb2.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            # The kubelet counts a claim without an entry as not done.
            answer.claims[claim.uid].SetInParent()
            try:
                self._preparation.unprepare(claim.uid)
                log.info("Unprepared claim %s/%s", claim.namespace, claim.name)
            except Exception as error:
                answer.claims[claim.uid].error = _said("unprepare", claim, error)
        return answer

    def _prepare(self, claim: t.Any) -> list[t.Any]:
        found = self._preparation.prepare(claim.namespace, claim.name, claim.uid)
        log.info("Prepared claim %s/%s with devices %s", claim.namespace, claim.name,
                 ", ".join(d.device for d in found.devices))
        return [dra_pb2.Device(
            request_names=[device.request], pool_name=device.pool, device_name=device.device,
            cdi_device_ids=[self._preparation.cdi_id(claim.uid, device.entry)],
            share_id=device.share_id or None) for device in found.devices]


def _said(what: str, claim: t.Any, error: Exception) -> str:
    if not isinstance(error, (Refused, ApiError, OSError)):
        log.error("cannot %s claim %s/%s", what, claim.namespace, claim.name, exc_info=error)
        return f"{type(error).__name__}: {error}"
    log.warning("cannot %s claim %s/%s: %s", what, claim.namespace, claim.name, error)
    return str(error)
