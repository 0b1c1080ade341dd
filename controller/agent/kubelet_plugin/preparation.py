# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepare and unprepare.

The kubelet calls them before the first and after the last container of a claim.

Prepare writes the checkpoint first, then the spec. If the agent ends between the two, it has not
answered, and the kubelet calls again. Each step may be repeated.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json

from .allocation import Place, Result
from .cdi.container_edits import ContainerEdits, with_share
from .cdi.specs import SpecFolder
from .checkpoint import Checkpoint, PreparedClaim, PreparedDevice
from .device_view import DeviceView
from .devices import MEMORY, NodeDevice
from .errors import Refused
from .keepers import Keepers
from .memory import MemoryGuard

log = logging.getLogger("composable.infra")


@dataclass(frozen=True, slots=True)
class OnNode:
    """The parts of the node that a preparation reads and writes."""

    view: DeviceView
    edits: ContainerEdits
    specs: SpecFolder
    checkpoint: Checkpoint
    keepers: Keepers
    memory: MemoryGuard


class Preparation:
    """Prepare and unprepare claims. Thread-safe.

    ``prepared`` is called after each prepared claim.
    """

    def __init__(self, place: Place, client: Client, node: OnNode, prepared: Callable[[PreparedClaim], None]) -> None:
        self._place, self._client, self._prepared = place, client, prepared
        self._view, self._edits = node.view, node.edits
        self._specs, self._checkpoint = node.specs, node.checkpoint
        self._keepers, self._memory = node.keepers, node.memory
        self._withheld: dict[str, str] = {}
        self._is_whole = False
        self._lock = threading.Lock()

    def claims(self) -> list[PreparedClaim]:
        """Return all prepared claims."""
        with self._lock:
            return self._checkpoint.claims()

    def prepare(self, namespace: str, name: str, uid: str) -> PreparedClaim:
        """Prepare a claim. Raises Refused, ApiError or OSError. The kubelet then calls again."""
        self._recover()
        results = self._place.results(self._client.get(CLAIMS, name, namespace), uid)
        with self._lock:
            found = self._checkpoint.get(uid)
            if found is None or not _is_same(found, results) or not self._specs.path(uid).exists():
                found = self._make(PreparedClaim(uid, namespace, name, ()), results)
        self._prepared(found)
        return found

    def unprepare(self, uid: str) -> None:
        """Undo the preparation of the claim with this uid, which may be unknown.

        Raises Refused while a container of another pod has a device of the claim open. The pod does
        not end until then, so that the claim keeps its devices. Raises ApiError or OSError.
        """
        self._recover()
        claims = self.claims()
        for claim in claims:
            if claim.uid == uid and (reason := self._keepers.strangers(claim, claims)):
                raise Refused(
                    f"the claim {claim.namespace}/{claim.name} keeps its devices: {reason}")
        with self._lock:
            self._drop(uid)

    def withheld(self) -> list[tuple[PreparedClaim, str]]:
        """Return the claims that are over while something may use their devices, with the reason.
        """
        with self._lock:
            return [(claim, reason) for uid, reason in self._withheld.items()
                    if (claim := self._checkpoint.get(uid)) is not None]

    def holder(self, uuid: str, address: str) -> str:
        """Return in a sentence which claim has the device prepared, empty for none.

        Administrative access does not count. ``uuid`` is empty for a device that has none.
        """
        try:
            self._recover()
        except (Refused, ApiError, OSError) as error:
            return f"the agent does not know which claims have prepared devices on this node: {error}"
        for claim in self.claims():
            if any(not d.admin and _is_device(d, uuid, address) for d in claim.devices):
                name = f"{claim.namespace}/{claim.name}"
                return f"the kubelet has not unprepared the claim {name} on this node"
        return ""

    def sweep(self) -> None:
        """Forget claims that are over, if the node proves that nothing uses their devices.

        The kubelet unprepares each claim, also a claim that is gone, so this is for a kubelet that
        lost its state. Raises Refused, ApiError or OSError.
        """
        self._recover()
        over = [claim for claim in self.claims() if self._is_over(claim)]
        with self._lock:
            self._withheld = {}
            for claim in over:
                if self._checkpoint.get(claim.uid) is None:
                    continue
                if reason := self._keepers.of(claim):
                    self._withheld[claim.uid] = reason
                    continue
                log.info("Forgot claim %s/%s. It has ended, and no process uses its devices", claim.namespace,
                         claim.name)
                self._drop(claim.uid)
            self._specs.remove_unfinished()

    def _recover(self) -> None:
        """Note again, once, the claims that only their specs show as prepared.

        This restores a lost checkpoint while containers run on. A spec is written after the
        checkpoint and removed before it. Raises Refused, ApiError or OSError.
        """
        with self._lock:
            if self._is_whole:
                return
            lost = self._specs.others([claim.uid for claim in self._checkpoint.claims()])
            if lost:
                known = {str(raw["metadata"].get("uid")): raw for raw in self._client.list(CLAIMS).items}
                there = {device.name: device for device in self._view.look()}
                for uid, entries in lost.items():
                    self._recover_one(uid, entries, known.get(uid), there)
            self._is_whole = True

    def _recover_one(self, uid: str, entries: list[str], raw: Json | None, there: dict[str, NodeDevice]) -> None:
        if not entries:
            log.info("Removed the spec of claim %s, because it names no device", uid)
            self._specs.remove(uid)
            return
        meta = raw["metadata"] if raw is not None else {"namespace": "", "name": uid}
        devices = [(item, self._named(uid, there, item.pool, item.device)) for item in self._allocated_here(raw, uid)]
        if not devices:  # Only the names of the devices are left.
            named = (self._named(uid, there, self._place.pool, entry) for entry in entries)
            devices = [(Result("", self._place.pool, device.name), device) for device in named]
        found = PreparedClaim(uid, meta["namespace"], meta["name"],
                              tuple(_prepared_device(item, device) for item, device in devices))
        self._checkpoint.put(found)
        log.warning("Restored the prepared claim %s/%s from its spec, because the checkpoint had lost it",
                    found.namespace, found.name)

    def _allocated_here(self, raw: Json | None, uid: str) -> list[Result]:
        """Return the claim's results on this node.

        None if the claim is gone or allocated on another node.
        """
        try:
            return self._place.results(raw, uid) if raw is not None and claims.results(raw) else []
        except Refused:
            return []

    def _named(self, uid: str, there: dict[str, NodeDevice], pool: str, name: str) -> NodeDevice:
        """Return the device with this name, which the id of a share may follow.

        Raises Refused when the node has no such device.
        """
        found = self._find(there, pool, name)
        if found is None and pool == self._place.pool:
            found = next((device for device in there.values() if name.startswith(f"{device.name}-")), None)
        if found is None:
            raise Refused(f"{self._specs.path(uid)} names the device {name}, which this node does not have. Drain the "
                          "node and delete the file")
        return found

    def cdi_id(self, uid: str, entry: str) -> str:
        """Return the name by which the container runtime finds a device.

        ``entry``: its name in the spec.
        """
        return self._specs.id(uid, entry)

    def _make(self, claim: PreparedClaim, results: list[Result]) -> PreparedClaim:
        there = {device.name: device for device in self._view.look()}
        devices = {item.device: self._usable(there, item) for item in results}
        for item in results:
            self._check_free(claim.uid, item, devices[item.device])
        self._memory.clean(self._new_memory(results, devices), claim.namespace)
        told = self._edits.of(list(devices.values()))
        made = PreparedClaim(claim.uid, claim.namespace, claim.name, tuple(
            _prepared_device(item, devices[item.device], told.libraries) for item in results))
        edits = replace(told, devices={it.entry: with_share(told.devices[devices[it.device].name], devices[it.device],
                                                            it.share_id, it.consumed) for it in made.devices})
        self._checkpoint.put(made)
        self._specs.write(claim.uid, edits)
        return made

    def _find(self, there: dict[str, NodeDevice], pool: str, name: str) -> NodeDevice | None:
        """Return the node's device with this name in a pool, None for none."""
        if pool == self._place.pool:
            return there.get(name)
        return self._view.find(cohdi.pool_device(pool, name), there.values())

    def _usable(self, there: dict[str, NodeDevice], item: Result) -> NodeDevice:
        found, is_own = self._find(there, item.pool, item.device), item.pool == self._place.pool
        name = item.device if is_own else cohdi.pool_device(item.pool, item.device)
        if found is None:
            known = ", ".join(sorted(there)) or "none"
            raise Refused(f"the device {name} cannot be used on node {self._place.node}. Allowed are {known}")
        if reason := self._view.reason_against(found):
            raise Refused(f"the device {name} cannot be used: {reason}")
        return found

    def _check_free(self, uid: str, result: Result, device: NodeDevice) -> None:
        """Refuse a device that another claim has.

        Two claims may have a device if the scheduler shared it between them, or with administrative
        access.
        """
        for other in self._checkpoint.claims():
            both = [each for each in other.devices if each.address == device.address and not each.admin]
            if other.uid == uid or result.admin or all(each.share_id and result.share_id for each in both):
                continue
            name = f"{other.namespace}/{other.name}"
            if not self._is_over(other):
                raise Refused(f"the device {device.name} is still prepared for the claim {name}")
            if reason := self._keepers.of(other):
                raise Refused(f"the device {device.name} is still prepared for the claim {name}. "
                              f"That claim has ended, but {reason}")
            self._drop(other.uid)

    def _new_memory(self, results: list[Result], devices: dict[str, NodeDevice]) -> list[NodeDevice]:
        """Return the CXL memory that no claim has prepared yet, not even this claim.

        It may hold data of another tenant.
        """
        held = {each.address for claim in self._checkpoint.claims() for each in claim.devices if not each.admin}
        found = {item.device: devices[item.device] for item in results if not item.admin}
        return [device for device in found.values() if device.type == MEMORY and device.address not in held]

    def _is_over(self, prepared: PreparedClaim) -> bool:
        """Return whether the claim is gone, or no longer has a device.

        Return False if the API server does not answer, or does not serve claims.
        """
        if not prepared.namespace:  # The claim was gone already when its spec was found.
            return True
        try:
            now = self._client.get(CLAIMS, prepared.name, prepared.namespace)
        except NotFound:
            return True
        except ApiError:
            return False
        return bool(now["metadata"].get("uid") != prepared.uid or not claims.results(now))

    def _drop(self, uid: str) -> None:
        self._specs.remove(uid)
        self._checkpoint.drop(uid)


def _prepared_device(item: Result, device: NodeDevice, libraries: bool = False) -> PreparedDevice:
    return PreparedDevice(item.request, item.pool, item.device, device.address, device.uuid, item.share_id, item.admin,
                          libraries, item.consumed)


def _is_device(prepared: PreparedDevice, uuid: str, address: str) -> bool:
    """Compare by UUID if both have one, because another device may be at the address now."""
    return prepared.uuid == uuid if prepared.uuid and uuid else prepared.address == address


def _is_same(prepared: PreparedClaim, results: list[Result]) -> bool:
    return [(d.request, d.pool, d.device, d.share_id) for d in prepared.devices] == \
        [(r.request, r.pool, r.device, r.share_id) for r in results]
