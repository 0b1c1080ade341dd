# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the immutable snapshot of a node, the input of its plan. Reading changes nothing."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ...kube.objects import nodes
from ...kube.objects.provisioning_requests import is_expected
from ...model.node import Node
from ...model.resource import Resource
from ...node.evidence import LOST_ON_BUS, REMOVAL_HUNG
from ...node.vendors import DRA_DRIVERS
from ...planning.bar_room import BAR_ROOM
from ...planning.node.compose import ONLINE
from ...planning.node.demand import RESCHEDULE
from ...planning.node.snapshot import Claim, ComposabilityRequest, ComposableResource, NodeSnapshot
from ...planning.settings import ASSUME_OFF
from . import adapters, pool_devices
from .cluster_state import ClusterState, DeviceSight
from .device_fit import with_misfits
from .scale_ups import requested_claims
from .usage import idle_shares, over_quota

OFF = "Off"
_UNFIT = (REMOVAL_HUNG, LOST_ON_BUS)


def node_snapshot(state: ClusterState, name: str, attached: Mapping[str, str] | None = None, *,
                  unread: bool = False) -> NodeSnapshot:
    """Return the snapshot of a node now, even of a node that the cluster does not have.

    ``attached`` (model by device UID) is a newer read of its machine than the last poll. ``unread``
    says that such a read was needed but failed.
    """
    now, may_release = state.now(), state.may_release()
    node, resources = state.nodes.value(name), state.resources.checked("node", name)
    exists = state.nodes.stored(name) is not None
    # Read holds first. A hold ends when its claim is allocated, so a device is held or in use at
    # each moment.
    holds = {each.name: hold_of(state, each, now) for each in resources}
    sights = state.sights(name)
    machine, fabric, problem = state.machine_of(name)
    lost, lost_at, not_lost = _lost(state, name, node, exists, resources, now)
    last_machine = "" if exists else _last_machine(resources)
    if attached is None and not unread:
        attached = adapters.attached_models(state.snapshot, machine or last_machine)
    of_pools = tuple(with_misfits(state, claim, allocated, resources)
                     for allocated in state.claims.checked("node", name)
                     if (claim := pool_devices.read_claim(state, allocated)))
    owned = frozenset(uid for uid in attached or () if state.resources.has("device", uid))
    return NodeSnapshot(
        name=name, now=now, labels=node.labels if node else {}, machine=machine,
        fabric=fabric, problem=problem, exists=exists,
        claims=(*of_pools, *_reserved_claims(state, name, fabric), *requested_claims(state, name, fabric, now)),
        over_quota=over_quota(state, of_pools),
        resources=tuple(_resource(state, each, holds[each.name], sights.get(each.name) or state.sight(each), now)
                        for each in resources),
        requests=(*(adapters.on_node(each, node) for each in state.requests.values("node", name) if name),
                  *_nodeless(state, name, node)),
        other_requests=frozenset(each for each in state.requests.names_at("node", "") if state.shares.of(each) is None),
        attached=attached, owned=owned, leaving=frozenset(uid for uid in owned if _leaves_another(state, name, uid)),
        blocked=blocked_models(state, name, resources, now), unread=unread, no_agent=state.agents.missing(name),
        fabric_seen=state.snapshot is not None, may_release=may_release, lost=lost, lost_at=lost_at, not_lost=not_lost,
        last_machine=last_machine, sizes=adapters.sizes_of(state.snapshot, machine),
        prewarm=idle_shares(state, name), bar_room=_bar_room(state, name))


def _bar_room(state: ClusterState, node: str) -> int | None:
    found = state.agents.places(node).get(BAR_ROOM)
    return found if isinstance(found, int) else None


def _leaves_another(state: ClusterState, node: str, uid: str) -> bool:
    return any(each.node != node and each.deleting for each in state.resources.values("device", uid))


def _nodeless(state: ClusterState, name: str, node: Node | None) -> Iterator[ComposabilityRequest]:
    """Yield requests that name no node, with the share that was planned for this node."""
    for request_name in state.requests.names_at("node", ""):
        share = (state.shares.of(request_name) or {}).get(name)
        if share is not None and (request := state.requests.value(request_name)):
            yield replace(adapters.on_node(request, node), size=share, nodeless=True)


def _last_machine(resources: list[Resource]) -> str:
    """Return the machine of a node that is gone, from the records of its attaches."""
    return next((each.machine for each in resources if each.machine), "")


def _lost(state: ClusterState, name: str, node: Node | None, exists: bool, resources: list[Resource], now: float
          ) -> tuple[str, float | None, str]:
    """Return why a node is certainly out of use, when it will count as lost, and what contradicts
    that.

    A live agent contradicts. For a node that is gone, another Node with its machine contradicts,
    because the node was renamed. A machine that may be on contradicts, because it may be in another
    cluster.
    """
    if state.agents.alive(name):
        return "", None, ""
    if exists:
        why = f"an administrator marked node {name} as out of service"
        return (why if node and nodes.is_out_of_service(node) else ""), None, ""
    since = state.absent_nodes.of(name)
    machines = sorted({each.machine for each in resources if each.machine or each.device_uid})
    if since is None or any(state.nodes.has("machine", machine) for machine in machines if machine):
        return "", None, ""
    until = since + state.settings.gone_node_duration
    if now < until:
        return "", until, ""
    why = f"node {name} has been gone for {state.settings.gone_node_duration:g} s"
    on = next(filter(None, (_may_be_on(state, machine) for machine in machines)), "")
    if on:
        return "", None, (f"{why}, but {on}. The machine may have joined another cluster. Switch it off, or set "
                          "force_detach of this object after you have made sure that no process uses the device")
    return why, None, ""


def _may_be_on(state: ClusterState, machine: str) -> str:
    """Return in a sentence why a machine may be on, or an empty string if it is off."""
    shown = state.snapshot.machines.get(machine) if state.snapshot else None
    if shown is not None and shown.power is not None:
        return reported_on(machine, shown.power)
    if state.settings.gone_node_power == ASSUME_OFF:
        return ""
    return f"the CDI Manager does not report whether {f'machine {machine}' if machine else 'its machine'} is off"


def reported_on(machine: str, power: str | None) -> str:
    """Return a sentence that a machine is on, or an empty string if it is off or not reported."""
    return f"the CDI Manager reports machine {machine} as {power}" if power not in (None, OFF) else ""


def blocked_models(state: ClusterState, node: str, resources: Iterable[Resource], now: float) -> Mapping[str, str]:
    """Return the models that cannot be attached now, with reasons.

    That is all models if no agent is alive, or if no device could be used. Judge agents only after
    the first poll. A node without a machine needs no agent and reports the missing machine instead.
    """
    judged = state.agents.give_evidence and state.snapshot is not None
    missing = (state.agents.missing(node) if judged else "") or _unfit(state, node, resources, judged)
    return {m.cdi_model_name: missing for m in state.settings.models} if missing else state.blocks.of(node, now)


def _unfit(state: ClusterState, node: str, resources: Iterable[Resource], judged: bool) -> str:
    """Return in a sentence why a node could not use a new device, or an empty string.

    A removal that hangs holds the lock that rescans need. Beside a lost device, the vendor's plugin
    does not start. Node operations do not restart a vendor's plugin that knows an unhealthy device,
    because the plugin would forget that.
    """
    trouble = next((each.node_work.trouble for each in resources if each.node_work.reason in _UNFIT), None)
    why = trouble if trouble is not None else _sick(state, node) if judged else ""
    return f"node {node} gets no new device: {why}" if why else ""


def _sick(state: ClusterState, node: str) -> str:
    found = [f"device {key[2]} has the taint {taint}" for key, taint in state.sick_devices(node)
             if key[0] in DRA_DRIVERS]
    return (f"{', '.join(found)}, and a restart of its plugin would remove the taint. Detach the device, or repair it "
            "and delete the plugin's pod") if found else ""


def _reserved_claims(state: ClusterState, node: str, fabric: int | None) -> tuple[Claim, ...]:
    """Return the claims of gated pods that have a reservation on this node."""

    def name_of(uid: str) -> str:
        claim = state.claim(uid)
        pod = None if claim else state.pods.first_value("uid", uid.partition("/")[2])
        if pod is not None:
            return f"{pod.name}-extended-resources"
        return claim.name if claim else uid

    return state.reservations.claims(node, fabric, state.settings, name_of)


def hold_of(state: ClusterState, resource: Resource, now: float) -> tuple[str, float, bool]:
    """Return the claim (its UID) that a device is held for, since when, and whether it may still
    take it."""
    held_for, held_since = state.holds.of(resource)
    return held_for, held_since, _is_hold_alive(state, resource.node, held_for, held_since, now)


def _resource(state: ClusterState, resource: Resource, hold: tuple[str, float, bool], sight: DeviceSight,
              now: float) -> ComposableResource:
    """Return a ComposableResource. A device that a claim uses now has no hold."""
    name, used_by = resource.name, sight.user.key if sight.user else ""
    held_for, held_since, alive = ("", 0.0, False) if sight.user else hold
    visible, also_on = bool(sight.keys), _also_on(state, resource)
    usable = not also_on and _is_usable(state, resource, visible, whole=len(sight.drivers) == 1)
    return ComposableResource.of(
        resource, last_used=max(now if used_by else state.last_uses.of(name), resource.last_used), held_for=held_for,
        held_since=held_since, visible=visible, usable=usable, shown_by=sight.drivers, also_on=also_on,
        tainted=name in state.tainted and not state.untainted(name, sight.keys), busy=name in state.operations,
        used_by=used_by, doubted_since=state.doubts.of(name) or 0.0,
        hold_alive=alive, **_departed(state, resource, now))


def _departed(state: ClusterState, resource: Resource, now: float) -> dict[str, t.Any]:
    """Return how the device of a ComposableResource left the machine of a lost node, or when that
    counts."""
    since = state.departures.of(resource.name)
    if since is None or state.nodes.stored(resource.node) is not None:
        return {}
    seconds = state.settings.gone_node_duration
    if now < since + seconds:
        return {"departed_at": since + seconds}
    return {"departed": f"device {resource.device_uid} has not been on machine {resource.machine} for {seconds:g} s, "
                        f"and node {resource.node} is gone"}


def _also_on(state: ClusterState, resource: Resource) -> str:
    """Return which other machine also has the device, by the last poll, or an empty string."""
    uid = resource.device_uid
    machines = state.snapshot.shared.get(uid) if state.snapshot and uid else None
    if machines is None:
        return ""
    own = resource.machine or state.machine_of(resource.node)[0]
    others = [machine for machine in machines if machine != own]
    return f"machine {', '.join(others)}" if others else "another machine"


def _is_usable(state: ClusterState, resource: Resource, visible: bool, whole: bool) -> bool:
    """Return whether a claim can use the device.

    A device that a claim has as a pool device must not be in a ResourceSlice of the node, or it
    would be allocated twice. A device that two drivers show cannot be used either.
    """
    work = resource.node_work
    if not resource.pool_device:  # without evidence, node operations were done before they were recorded
        return whole and (resource.state == ONLINE or not state.agents.give_evidence or work.prepared)
    return work.prepared and not (visible or work.asked or (work.trouble and not work.warning))


def _is_hold_alive(state: ClusterState, node: str, claim_uid: str, since: float, now: float) -> bool:
    """Return whether the claim may still take the device. A claim on another node has left it."""
    if not claim_uid:
        return False
    claim = state.claim(claim_uid)
    if claim is None and is_expected(claim_uid):
        return state.reservations.holds_for(claim_uid)
    if claim is None:  # a special claim is known by its pod and is absent between two scheduling cycles
        pod = state.pods.first_value("uid", claim_uid.partition("/")[2])
        alive = pod is not None and not pod.ended
        return alive and (now - since < state.settings.handover_timeout or state.reservations.holds_for(claim_uid))
    if claim.results:
        return claim.phase == RESCHEDULE and bool(claim.pool_results) and claim.node == node
    return now - since < state.settings.handover_timeout or state.reservations.holds_for(claim_uid)
