# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan may hold. An action is data: check mode prints it, apply carries the very same one out."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from .node.snapshot import PodRef


@dataclass(frozen=True, slots=True)
class Action:
    """Base of all actions; every one gives its reason in a sentence."""

    node: str
    reason: str

    def as_dict(self) -> dict[str, t.Any]:
        """The action as plain data, with its kind, for results and diffs."""
        return {"action": type(self).__name__, **asdict(self)}


@dataclass(frozen=True, slots=True)
class SetSize(Action):
    """Create or patch the ComposabilityRequest of (node, model). ``type``: its kind of device, as CoHDI calls it.

    ``claims``: uids of those that wait for devices of the model here.
    """

    model: str
    size: int
    before: int | None
    request: str
    type: str = "gpu"
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkClaim(Action):
    """Write a binding condition onto the allocation it was decided for; nominate its pods to the node."""

    claim: str
    namespace: str
    name: str
    condition: str
    pods: tuple[PodRef, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reserve(Action):
    """Choose the node of a pod that our gate holds; its devices are then attached there."""

    pod: PodRef
    needs: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class OpenGate(Action):
    """Everything is there: keep the devices for the pod's claims, nominate the pod to the node, remove the gate.

    ``devices``: ComposableResource by claim uid.
    """

    pod: PodRef
    devices: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ReleaseGate(Action):
    """Remove the gate of a pod that is not served here; ``node`` is empty. ``judged``: no node can be made to fit."""

    pod: PodRef
    judged: bool


@dataclass(frozen=True, slots=True)
class Unreserve(Action):
    """The node chosen for a held pod cannot be served after all: choose anew."""

    pod: PodRef


@dataclass(frozen=True, slots=True)
class Touch(Action):
    """Record on a ComposableResource that its device began or ceased to be used."""

    resource: str
    in_use: bool
    stamp: bool = True


@dataclass(frozen=True, slots=True)
class LabelNode(Action):
    """Set node labels; a value of None removes the label."""

    labels: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateResource(Action):
    """Write down the intent to attach one device, then ask the CDI Manager.

    ``name``: of the ComposableResource. Two that plan from the same state give the same name, so that only one creates.
    ``type``: as CoHDI calls the kind of device. ``claim``: uid of the one that waits for it, empty for none.
    ``pool_device``: as which pool device a claim will have it (``<pool>/<device>``), empty for none.
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
    """Write down as which pool device a claim (its uid) has the device of a ComposableResource; empty: as none any
    more."""

    resource: str
    pool_device: str
    claim: str = ""


@dataclass(frozen=True, slots=True)
class Attach(Action):
    """Ask the CDI Manager for the device of a ComposableResource that has not been asked for."""

    resource: str
    model: str
    machine: str
    present: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resume(Action):
    """Wait for an operation that an earlier process began at an asynchronous CDI Manager."""

    resource: str
    operation: str


@dataclass(frozen=True, slots=True)
class Adopt(Action):
    """Take a device that an earlier, unanswered request attached. ``machine``: where the intent does not name it."""

    resource: str
    device: str
    machine: str = ""


@dataclass(frozen=True, slots=True)
class DeleteResource(Action):
    """Mark a surplus ComposableResource for deletion; ``block``: attach no device of that model here for a while."""

    resource: str
    block: str = ""


@dataclass(frozen=True, slots=True)
class AskRelease(Action):
    """Ask the node to prove the device idle and to remove it."""

    resource: str


@dataclass(frozen=True, slots=True)
class TaintDevice(Action):
    """Keep the scheduler off a device that its node shows although it was asked to let it go; one that a claim has
    by now is not asked for any more."""

    resource: str


@dataclass(frozen=True, slots=True)
class WithdrawRelease(Action):
    """Let the node keep the device that it was asked to remove."""

    resource: str


@dataclass(frozen=True, slots=True)
class Detach(Action):
    """Have the CDI Manager detach a device that the node has let go, or that is forced off it.

    ``lost``: the node is certainly out of use, so nobody there can let it go.
    """

    resource: str
    machine: str
    device: str
    force: bool = False
    lost: bool = False


@dataclass(frozen=True, slots=True)
class FinishDeparted(Action):
    """Take it that a device has been returned: its node is gone, and the device has left the node's machine."""

    resource: str
    machine: str
    device: str


@dataclass(frozen=True, slots=True)
class Finish(Action):
    """Let a deleted ComposableResource go: nothing of it is left on the fabric."""

    resource: str


@dataclass(frozen=True, slots=True)
class FinishRequest(Action):
    """Let a deleted ComposabilityRequest go: it has no ComposableResource left."""

    request: str


@dataclass(frozen=True, slots=True)
class SetState(Action):
    """Write the state and error of a ComposableResource."""

    resource: str
    state: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class WaitReason:
    """What one claim waits for: one sentence, with its evidence. ``handover``: the way in which the claim gets its
    devices, empty where none is known or none is under way. ``refused``: why the fabric cannot serve the claim,
    whatever becomes free; empty for a claim that it can serve."""

    claim: str
    waits_for: str
    since: float
    evidence: Mapping[str, t.Any] = field(default_factory=dict)
    handover: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Ordered actions, the verdict per claim, and when time alone will change the answer (epoch seconds)."""

    actions: tuple[Action, ...] = ()
    wait_reasons: tuple[WaitReason, ...] = ()
    wake_at: float | None = None
