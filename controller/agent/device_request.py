# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read from a ComposableResource what the operator requests, and decide the work on the bus.

No input or output.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import ClaimRef, read_claim
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import (
    ATTACH,
    NODE,
    POOL_DEVICE,
    RELEASE,
    annotation,
)
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    PREPARING,
    READY,
    RELEASING,
    REMOVED,
    TOUCHED,
    Evidence,
)


class Work(enum.Enum):
    """Work of the bus worker for a device."""

    NOTHING = "nothing"
    BRING_UP = "bring up"
    LOOK = "look"
    TAKE_BACK = "take back"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A ComposableResource of the node, with its evidence.

    ``device``: UID of the device at the CDI Manager, empty before its answer. ``uuid``: of the GPU,
    if the CDI Manager knows it. ``coming``: the operator is requesting the device from the CDI
    Manager. ``wanted``: the ComposableResource is not being deleted. ``release``: when the operator
    requested the release, empty if it has not. ``evidence``: about this device, None for none.
    ``claim``: the claim that the device is for, if known. ``pool_device``: the pool device
    (``<pool>/<device>``) as which a claim has the device, empty for none.
    """

    name: str
    uid: str
    kind: str
    model: str
    device: str = ""
    uuid: str = ""
    coming: bool = False
    wanted: bool = True
    release: str = ""
    evidence: Evidence | None = None
    claim: ClaimRef | None = None
    pool_device: str = ""

    @property
    def logged(self) -> dict[str, tuple[ClaimRef, ...]]:
        """The ``extra`` of a log record about the ComposableResource."""
        return {"claims": (self.claim,) if self.claim else ()}


def read(obj: Json, known: Evidence | None = None) -> DeviceRequest:
    """Read a ComposableResource. ``known``: evidence that is newer than the object's own."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    device = str(status.get("cdi_device_id") or "")
    wanted = not obj["metadata"].get("deletionTimestamp")
    evidence = known or Evidence.parse(annotation(obj, NODE))
    return DeviceRequest(
        name=obj["metadata"]["name"], uid=str(obj["metadata"].get("uid") or ""), kind=str(spec.get("type") or ""),
        model=str(spec.get("model") or ""), device=device, uuid=str(status.get("device_id") or ""),
        coming=wanted and not device and bool(annotation(obj, ATTACH)), wanted=wanted,
        release=annotation(obj, RELEASE) if device else "",
        evidence=evidence if evidence and device and evidence.device == device else None, claim=read_claim(obj),
        pool_device=annotation(obj, POOL_DEVICE))


def work_of(request: DeviceRequest, checked: bool, shown: bool = False) -> Work:
    """Return the work on the bus for a ComposableResource.

    ``checked``: this process has seen the device there since the evidence was written. ``shown``: a
    slice of the node shows the device, so a claim may have it.
    """
    phase = request.evidence.phase if request.evidence else ""
    if not request.device:
        return Work.NOTHING
    if request.release:
        done = phase == REMOVED and checked and request.evidence and request.evidence.release == request.release
        return Work.NOTHING if done else Work.RELEASE
    if phase == RELEASING:
        return Work.TAKE_BACK
    if not request.wanted and phase != REMOVED and not (shown and _is_unused(request.evidence)):
        return Work.NOTHING
    # If the release was taken back, a claim has the device. Bring the device up.
    return _upwards(request.evidence, checked)


def _is_unused(evidence: Evidence | None) -> bool:
    """Return whether the device was never brought up, so that it has no file and no container can
    get it.
    """
    return evidence is None or not evidence.has(TOUCHED)


def _upwards(evidence: Evidence | None, checked: bool) -> Work:
    if evidence is None or evidence.phase == REMOVED:
        return Work.BRING_UP
    if evidence.phase == READY:
        return Work.NOTHING if checked else Work.LOOK
    assert evidence.phase == PREPARING
    return Work.NOTHING if checked and evidence.has(TOUCHED) else Work.BRING_UP
