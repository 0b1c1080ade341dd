# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the rows of the page from stores and memory. Send no request and change nothing."""

from __future__ import annotations

import typing as t
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
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi, nodes
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import read_claim
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.plugins.module_utils.model.claim import ResourceClaim
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.planning.node.compose import DETACHING, ONLINE
from ansible_collections.composable.infra.plugins.module_utils.planning.node.demand import READY
from ansible_collections.composable.infra.plugins.module_utils.planning.node.supply import DELETING
from ansible_collections.composable.infra.plugins.module_utils.reconcile.fabric_claims import requests
from ansible_collections.composable.infra.plugins.module_utils.reconcile.pool.snapshot import asked_since, fabric_of
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state import adapters
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState

Json = dict[str, t.Any]
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

    def of(self, raw: Json) -> tuple[str, ...]:
        """Return the names of the ComposableResources that an allocated claim uses."""
        node = claims.node(raw)
        if not node:
            return ()
        if node not in self._of:
            self.users(node)
        return tuple(sorted(self._of[node].get(raw["metadata"]["uid"], ())))


def node_row(state: ClusterState, name: str, uses: Uses) -> NodeRow | None:
    """Return the row of a node by its name, None if nothing is left of it.

    A node that is gone may still have devices.
    """
    raw, resources = state.nodes.get(name), state.resources.by("node", name)
    if raw is None and not resources:
        return None
    uid, fabric, problem = state.machine_of(name)
    machine = _machine(state, uid)
    spec = (raw or {}).get("spec") or {}
    return NodeRow(name, machine=uid or "", fabric=fabric, ready=raw is not None and nodes.ready(raw),
                   cordoned=bool(spec.get("unschedulable")), power=(machine.power or "") if machine else "",
                   problem=problem or state.agents.missing(name) if raw else "the node is gone",
                   devices=tuple(sorted(_devices(state, resources, machine, uses.users(name)),
                                        key=lambda d: (d.model, d.name))))


def machine_row(state: ClusterState, uid: str) -> NodeRow | None:
    """Return the row of a machine of the fabric that is no node, None for a node's machine."""
    machine = _machine(state, uid)
    if machine is None or state.nodes.by("machine", uid):
        return None
    return NodeRow(machine.name or uid, is_node=False, machine=uid, fabric=machine.fabric, power=machine.power or "",
                   devices=tuple(_strange(d) for d in machine.devices))


def _machine(state: ClusterState, uid: str | None) -> Machine | None:
    return state.snapshot.machines.get(uid) if state.snapshot and uid else None


def _devices(state: ClusterState, resources: Iterable[Json], machine: Machine | None,
             users: Mapping[str, ResourceClaim]) -> Iterator[DeviceRow]:
    """Yield the devices of ComposableResources, then the devices without one.

    A ComposableResource does not show a device that has just been attached.
    """
    there = {device.uid: device for device in machine.devices} if machine else {}
    coming: Counter[str] = Counter()
    for raw in resources:
        uid = (raw.get("status") or {}).get("cdi_device_id") or ""
        coming[raw["spec"]["model"]] += not uid
        yield device_row(state, raw, there.pop(uid, None), users.get(raw["metadata"]["name"]))
    for device in there.values():
        coming[device.model] -= 1
        if coming[device.model] < 0 and not state.resources.by("device", device.uid):
            yield _strange(device)


def _strange(device: Device) -> DeviceRow:
    """Return the row of a device without a ComposableResource."""
    return DeviceRow(device.uid, device.model, UNMANAGED, uid=device.uid, serial=device.serial or "",
                     trouble=f"its health is {BAD_HEALTH}" if device.health == BAD_HEALTH else "", box=device.box or "")


def device_row(state: ClusterState, raw: Json, device: Device | None, user: ResourceClaim | None) -> DeviceRow:
    """Return the row of the device of a ComposableResource.

    ``device``: as the CDI Manager shows it, None if it does not. ``user``: the claim that uses it,
    None for none.
    """
    status = raw.get("status") or {}
    work, trouble = adapters.read_node_work(raw), str(status.get("error") or "")
    if work.trouble and not work.warning:
        trouble = trouble or work.trouble
    if device and device.health == BAD_HEALTH:
        trouble = trouble or f"the CDI Manager reports its health as {BAD_HEALTH}"
    claim, where = _claim_and_state(state, raw, user)
    return DeviceRow(
        raw["metadata"]["name"], raw["spec"]["model"], FAULTY if trouble else where,
        uid=status.get("cdi_device_id") or "", serial=adapters.serial(raw), claim=claim,
        pods=tuple(name for name, _uid in user.pods) if user else (),
        until=_hold_ends(state, raw) if where == IDLE and not trouble else 0.0,
        trouble=trouble, warning=work.trouble if work.warning else "", box=(device.box if device else None) or "")


def _claim_and_state(state: ClusterState, raw: Json, user: ResourceClaim | None) -> tuple[str, str]:
    """Return (claim, state) of a device without a problem."""
    resource = state.resources.value(raw["metadata"]["name"])
    status, held = raw.get("status") or {}, state.claim(state.holds.of(resource)[0]) if resource else None
    if user:
        return user.key, IN_USE
    if raw["metadata"].get("deletionTimestamp") or status.get("state") in (DETACHING, DELETING) \
            or cohdi.annotation(raw, cohdi.RELEASE):
        return "", LEAVING
    if status.get("state") != ONLINE:
        meant = read_claim(raw)
        return held.key if held else meant.key if meant else "", ATTACHING
    return (held.key, RESERVED) if held else ("", IDLE)


def _hold_ends(state: ClusterState, raw: Json) -> float:
    name, settings = raw["metadata"]["name"], state.settings
    noted = parse_time(cohdi.annotation(raw, settings.label(cohdi.LAST_USED)))
    used = max(state.last_uses.of(name), noted)
    return round(used + settings.device_no_removal_duration, 1) if used else 0.0


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
    unasked = sum(1 for raw in state.resources.by("unattached", name)
                  if not cohdi.read_intent(raw)[1] and not raw["metadata"].get("deletionTimestamp")
                  and fabric_of(state, raw["spec"]["target_node"], seen) == fabric)
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


def claim_row(raw: Json, reason: WaitReason | None, uses: Uses) -> ClaimRow:
    """Return the row of a claim. ``reason``: why it waits, None if that is not known."""
    meta, consumers = raw["metadata"], claims.consumers(raw)
    where = WAITING
    if claims.results(raw):
        has_them = not claims.binding_results(raw) or adapters.claim_phase(raw) == READY
        where = PREPARING if not has_them else SERVED if consumers else UNUSED
    waits = reason is not None and bool(reason.waits_for) and where not in (SERVED, UNUSED)
    place = reason.evidence if reason and waits else {}
    return ClaimRow(
        meta["namespace"], meta["name"], meta["uid"], where, wants=_wants(raw),
        waits_for=reason.waits_for if reason and waits else "",
        refused=reason.refused if reason and waits else "", since=reason.since if reason and waits else 0.0,
        position=place.get("position"), of=place.get("of"),
        created=parse_time(meta.get("creationTimestamp")),
        node=claims.node(raw) or str(place.get("node") or ""),
        pods=tuple(str(pod["name"]) for pod in consumers), devices=uses.of(raw) if claims.results(raw) else ())


def _wants(raw: Json) -> str:
    """Return the requests of a claim as text. Only the first alternative of a request counts."""
    found = []
    for request in requests(raw):
        first: Json = request.get("exactly") or next(iter(request.get("firstAvailable") or ()), {})
        count = "all" if first.get("allocationMode") == "All" else str(first.get("count") or 1)
        found.append(f"{count} x {first.get('deviceClassName', '')}")
    return ", ".join(found)
