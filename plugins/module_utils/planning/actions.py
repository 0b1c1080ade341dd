# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The actions of a plan. An action is data: check mode prints the actions, and apply executes the
same ones.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from .node.snapshot import PodRef


@dataclass(frozen=True, slots=True)
class Action:
    """Base of all actions. ``reason`` is a sentence that says why the action is planned."""

    node: str
    reason: str

    def as_dict(self) -> dict[str, t.Any]:
        """Return the action as plain data, with its kind, for results and diffs."""
        return {"action": type(self).__name__, **asdict(self)}


@dataclass(frozen=True, slots=True)
class SetSize(Action):
    """Create or patch the ComposabilityRequest of a node and a model.

    ``type``: the kind of device in CoHDI's terms. ``claims``: UIDs of the claims that wait for
    devices of the model on this node.
    """

    model: str
    size: int
    before: int | None
    request: str
    type: str = "gpu"
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkClaim(Action):
    """Write a binding condition to the claim's allocation, and nominate its pods to the node."""

    claim: str
    namespace: str
    name: str
    condition: str
    pods: tuple[PodRef, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reserve(Action):
    """Choose the node of a gated pod. The controllers then attach the pod's devices there."""

    pod: PodRef
    needs: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class OpenGate(Action):
    """Reserve the devices for the pod's claims, nominate the pod to the node, and remove the gate.

    Planned when all devices of the pod are ready. ``devices``: pairs of claim UID and
    ComposableResource.
    """

    pod: PodRef
    devices: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ReleaseGate(Action):
    """Remove the gate of a pod that the controllers do not serve. ``node`` is empty.

    ``judged``: no node can be made to fit the pod.
    """

    pod: PodRef
    judged: bool


@dataclass(frozen=True, slots=True)
class Unreserve(Action):
    """Choose another node for a gated pod, because the chosen node cannot serve it."""

    pod: PodRef


@dataclass(frozen=True, slots=True)
class Touch(Action):
    """Record on a ComposableResource that a claim began or stopped using its device."""

    resource: str
    in_use: bool
    stamp: bool = True


@dataclass(frozen=True, slots=True)
class LabelNode(Action):
    """Set labels of the node. A value of None removes the label."""

    labels: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateResource(Action):
    """Create the ComposableResource of one device, then request the device from the CDI Manager.

    ``name``: name of the ComposableResource. Two planners with the same state choose the same name,
    so that only one of them creates the object. ``type``: the kind of device in CoHDI's terms.
    ``claim``: UID of the claim that waits for the device, empty for none. ``pool_device``: the pool
    device (``<pool>/<device>``) that this device will be for a claim, empty for none.
    """

    name: str
    request: str
    model: str
    machine: str
    present: tuple[str, ...] = ()
    force: bool = False
    type: str = "gpu"
    claim: str = ""
    pool_device: str = ""


@dataclass(frozen=True, slots=True)
class SetPoolDevice(Action):
    """Record the pool device that the device of a ComposableResource is for a claim (UID).

    An empty ``pool_device`` ends the record.
    """

    resource: str
    pool_device: str
    claim: str = ""


@dataclass(frozen=True, slots=True)
class Attach(Action):
    """Request the device of an existing ComposableResource from the CDI Manager."""

    resource: str
    model: str
    machine: str
    present: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resume(Action):
    """Wait for an operation that an earlier process started at an asynchronous CDI Manager."""

    resource: str
    operation: str


@dataclass(frozen=True, slots=True)
class Adopt(Action):
    """Assign to a ComposableResource the device that an earlier request without a reply attached.

    ``machine``: set if the ComposableResource does not name its machine.
    """

    resource: str
    device: str
    machine: str = ""


@dataclass(frozen=True, slots=True)
class DeleteResource(Action):
    """Mark a surplus ComposableResource for deletion.

    ``block``: attach no device of this model to the node for a while.
    """

    resource: str
    block: str = ""


@dataclass(frozen=True, slots=True)
class AskRelease(Action):
    """Request from the node that it proves the device idle and removes it."""

    resource: str


@dataclass(frozen=True, slots=True)
class TaintDevice(Action):
    """Keep kube-scheduler off a device that the node still publishes after a request to remove it.

    If a claim has taken the device in the meantime, withdraw that request instead.
    """

    resource: str


@dataclass(frozen=True, slots=True)
class WithdrawRelease(Action):
    """Withdraw the request to remove a device, so that the node keeps it."""

    resource: str


@dataclass(frozen=True, slots=True)
class Detach(Action):
    """Detach at the CDI Manager a device that the node has removed, or that must leave by force.

    ``lost``: the node is certainly out of use, so the device cannot be removed there first.
    """

    resource: str
    machine: str
    device: str
    force: bool = False
    lost: bool = False


@dataclass(frozen=True, slots=True)
class FinishDeparted(Action):
    """Record that a device is returned: its node is gone, and the device has left the machine."""

    resource: str
    machine: str
    device: str


@dataclass(frozen=True, slots=True)
class Finish(Action):
    """Remove the finalizer of a deleted ComposableResource. Nothing of it is left on the fabric."""

    resource: str


@dataclass(frozen=True, slots=True)
class FinishRequest(Action):
    """Remove the finalizer of a deleted ComposabilityRequest without ComposableResources."""

    request: str


@dataclass(frozen=True, slots=True)
class SetState(Action):
    """Write the state and error of a ComposableResource."""

    resource: str
    state: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class WaitReason:
    """The reason why one claim waits, in one sentence with its evidence.

    ``handover``: how the claim gets its devices, empty if it is not known or not started.
    ``refused``: why the fabric can never serve the claim, whatever becomes free. Empty if the
    fabric can serve it.
    """

    claim: str
    waits_for: str
    since: float
    evidence: Mapping[str, t.Any] = field(default_factory=dict)
    handover: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Ordered actions and the wait reason of each claim.

    ``wake_at``: when the plan changes by the passing of time alone, in epoch seconds.
    """

    actions: tuple[Action, ...] = ()
    wait_reasons: tuple[WaitReason, ...] = ()
    wake_at: float | None = None
