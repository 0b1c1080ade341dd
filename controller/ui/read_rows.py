# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the rows of the page from stores and memory. Send no request and change nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ansible_collections.composable.infra.controller.ui.rows import (
    ATTACHING,
    FAULTY,
    IDLE,
    IN_USE,
    LEAVING,
    PREPARING,
    RESERVED,
    SERVED,
    UNMANAGED,
    UNUSED,
    WAITING,
    BoxRow,
    ClaimRow,
    DeviceRow,
    FabricRow,
    LinkRow,
    ModelCount,
    NodeRow,
    SwitchRow,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, FabricSnapshot, Machine
from ansible_collections.composable.infra.plugins.module_utils.model.claim import ResourceClaim
from ansible_collections.composable.infra.plugins.module_utils.model.resource import Resource
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.planning.node.compose import DETACHING, ONLINE
from ansible_collections.composable.infra.plugins.module_utils.planning.node.demand import READY
from ansible_collections.composable.infra.plugins.module_utils.planning.node.supply import DELETING
from ansible_collections.composable.infra.plugins.module_utils.reconcile.pool.snapshot import asked_since, fabric_of
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values import resource_values

BAD_HEALTH = "Critical"


class Uses:
    """Find the devices that claims use, once for each node, for its row and the rows of its claims.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._of: dict[str, dict[str, list[str]]] = {}

    def users(self, node: str) -> dict[str, ResourceClaim]:
        """Return the claims by the ComposableResources of a node."""
        found = self._state.users(node)
        names = self._of[node] = {}
        for name, claim in found.items():
            names.setdefault(claim.uid, []).append(name)
        return found

    def of(self, claim: ResourceClaim) -> tuple[str, ...]:
        """Return the names of the ComposableResources that an allocated claim uses."""
        if not claim.node:
            return ()
        if claim.node not in self._of:
            self.users(claim.node)
        return tuple(sorted(self._of[claim.node].get(claim.uid, ())))


def node_row(state: ClusterState, name: str, uses: Uses) -> NodeRow | None:
    """Return the row of a node by its name, None if nothing is left of it.

    A node that is gone may still have devices.
    """
    node, resources = state.nodes.value(name), state.resources.values("node", name)
    if node is None and not resources:
        return None
    uid, fabric, problem = state.machine_of(name)
    machine = _machine(state, uid)
    return NodeRow(name, machine=uid or "", fabric=fabric, ready=node is not None and node.ready,
                   cordoned=node is not None and node.unschedulable, power=(machine.power or "") if machine else "",
                   problem=problem or state.agents.missing(name) if node else "the node is gone",
                   devices=tuple(sorted(_devices(state, resources, machine, uses.users(name)),
                                        key=lambda d: (d.model, d.name))))


def machine_row(state: ClusterState, uid: str) -> NodeRow | None:
    """Return the row of a machine of the fabric that is no node, None for a node's machine."""
    machine = _machine(state, uid)
    if machine is None or state.nodes.has("machine", uid):
        return None
    return NodeRow(machine.name or uid, is_node=False, machine=uid, fabric=machine.fabric, power=machine.power or "",
                   devices=tuple(_strange(d) for d in machine.devices))


def _machine(state: ClusterState, uid: str | None) -> Machine | None:
    return state.snapshot.machines.get(uid) if state.snapshot and uid else None


def _devices(state: ClusterState, resources: Iterable[Resource], machine: Machine | None,
             users: Mapping[str, ResourceClaim]) -> Iterator[DeviceRow]:
    """Yield the devices of ComposableResources, then the devices without one.

    A ComposableResource does not show a device that has just been attached.
    """
    there = {device.uid: device for device in machine.devices} if machine else {}
    coming: Counter[str] = Counter()
    for each in resources:
        coming[each.model] += not each.device_uid
        yield device_row(state, each, there.pop(each.device_uid, None), users.get(each.name))
    for device in there.values():
        coming[device.model] -= 1
        if coming[device.model] < 0 and not state.resources.has("device", device.uid):
            yield _strange(device)


def _strange(device: Device) -> DeviceRow:
    """Return the row of a device without a ComposableResource."""
    return DeviceRow(device.uid, device.model, UNMANAGED, uid=device.uid, serial=device.serial or "",
                     trouble=f"its health is {BAD_HEALTH}" if device.health == BAD_HEALTH else "", box=device.box or "")


def device_row(state: ClusterState, resource: Resource, device: Device | None, user: ResourceClaim | None) -> DeviceRow:
    """Return the row of the device of a ComposableResource.

    ``device``: as the CDI Manager shows it, None if it does not. ``user``: the claim that uses it,
    None for none.
    """
    work, trouble = resource.node_work, resource.error
    if work.trouble and not work.warning:
        trouble = trouble or work.trouble
    if device and device.health == BAD_HEALTH:
        trouble = trouble or f"the CDI Manager reports its health as {BAD_HEALTH}"
    claim, where = _claim_and_state(state, resource, user)
    return DeviceRow(
        resource.name, resource.model, FAULTY if trouble else where,
        uid=resource.device_uid, serial=resource.serial, claim=claim,
        pods=tuple(name for name, _uid in user.pods) if user else (),
        until=_hold_ends(state, resource) if where == IDLE and not trouble else 0.0,
        trouble=trouble, warning=work.trouble if work.warning else "", box=(device.box if device else None) or "")


def _claim_and_state(state: ClusterState, resource: Resource, user: ResourceClaim | None) -> tuple[str, str]:
    """Return (claim, state) of a device without a problem."""
    held = state.claim(state.holds.of(resource)[0])
    if user:
        return user.key, IN_USE
    if resource.deleting or resource.state in (DETACHING, DELETING) or resource.node_work.asked:
        return "", LEAVING
    if resource.state != ONLINE:
        meant = resource_values.noted_claim(resource)
        return held.key if held else meant.key if meant else "", ATTACHING
    return (held.key, RESERVED) if held else ("", IDLE)


def _hold_ends(state: ClusterState, resource: Resource) -> float:
    used = max(state.last_uses.of(resource.name), resource.last_used)
    return round(used + state.settings.device_no_removal_duration, 1) if used else 0.0


def fabrics(state: ClusterState) -> set[int]:
    """Return the numbers of the known fabrics."""
    if state.snapshot is None:
        return set()
    seen = state.snapshot
    places = (*(machine.fabric for machine in seen.machines.values()), *(place for _model, place in seen.free))
    return {each for each in places if each is not None}


def fabric_row(state: ClusterState, fabric: int, counts: Mapping[tuple[int, str], Counter[str]]) -> FabricRow:
    """Return the row of a fabric.

    ``counts``: devices by fabric, model and state, from its machines' rows.
    """
    seen = state.snapshot
    if seen is None:
        return FabricRow(fabric, 0)
    known = [model.cdi_model_name for model in state.settings.models]
    models = dict.fromkeys([*known, *sorted(model for place, model in counts if place == fabric)])
    rows = tuple(ModelCount(model, _free(state, model, fabric, seen), _in_pool(state, model, fabric),
                            dict(+counts.get((fabric, model), Counter()))) for model in models)
    return FabricRow(fabric, sum(machine.fabric == fabric for machine in seen.machines.values()),
                     tuple(row for row in rows if row.free or row.in_pool or row.states),
                     tuple(sorted({said for where, said in seen.problems.items() if where.endswith(f"/{fabric}")})))


def _free(state: ClusterState, name: str, fabric: int, seen: FabricSnapshot) -> int | None:
    """Return the free devices of a model by the last poll, None if the CDI Manager does not report
    them.

    Devices that are being attached since have a state of their own and are subtracted.
    """
    count, model = seen.free.get((name, fabric)), state.settings.model(name)
    if count is None or model is None:
        return count
    unasked = sum(1 for each in state.resources.values("unattached", name)
                  if not each.asked and not each.deleting and fabric_of(state, each.node, seen) == fabric)
    return max(0, count - unasked - asked_since(state, model, fabric, seen, max(seen.taken, seen.read)))


def free_in_boxes(state: ClusterState) -> dict[tuple[int, str], dict[str, int]]:
    """Return the free devices by fabric and box, then by model, by the last poll.

    Empty if no box is known.
    """
    found: dict[tuple[int, str], dict[str, int]] = {}
    for (model, fabric, box), number in (state.snapshot.free_in_boxes if state.snapshot else {}).items():
        found.setdefault((fabric, box), {})[model] = number
    return found


def box_row(fabric: int, box: str, free: Mapping[str, int], states: Counter[str]) -> BoxRow | None:
    """Return the row of a box, None if the box has no device any more."""
    return BoxRow(fabric, box, free, dict(+states)) if free or +states else None


def switch_rows(seen: FabricSnapshot) -> Iterator[SwitchRow]:
    """Yield the rows of the switches of a poll."""
    for each in seen.switches:
        links = tuple(LinkRow(link.kind, link.to, link.ports, link.down, link.gbps) for link in each.links)
        trouble = f"its health is {BAD_HEALTH}" if each.health == BAD_HEALTH else ""
        yield SwitchRow(each.fabric, each.uid, each.name, trouble, links)


def _in_pool(state: ClusterState, model: str, fabric: int) -> int:
    row = state.settings.model(model)
    return sum(len(found.devices) for found in state.slices.values("pool", row.pool(fabric))) if row else 0


def claim_row(claim: ResourceClaim, reason: WaitReason | None, uses: Uses) -> ClaimRow:
    """Return the row of a claim. ``reason``: why it waits, None if that is not known."""
    where = WAITING
    if claim.results:
        has_them = not claim.pool_results or claim.phase == READY
        where = PREPARING if not has_them else SERVED if claim.pods else UNUSED
    waits = reason is not None and bool(reason.waits_for) and where not in (SERVED, UNUSED)
    place = reason.evidence if reason and waits else {}
    return ClaimRow(
        claim.namespace, claim.name, claim.uid, where, wants=_wants(claim),
        waits_for=reason.waits_for if reason and waits else "",
        refused=reason.refused if reason and waits else "", since=reason.since if reason and waits else 0.0,
        position=place.get("position"), of=place.get("of"),
        created=claim.created, node=claim.node or str(place.get("node") or ""),
        pods=tuple(name for name, _uid in claim.pods), devices=uses.of(claim) if claim.results else ())


def _wants(claim: ResourceClaim) -> str:
    """Return the requests of a claim as text. Only the first alternative of a request counts."""
    found = []
    for request in claim.requests:
        first: Json = request.get("exactly") or next(iter(request.get("firstAvailable") or ()), {})
        count = "all" if first.get("allocationMode") == "All" else str(first.get("count") or 1)
        found.append(f"{count} x {first.get('deviceClassName', '')}")
    return ", ".join(found)
