# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove on the node that nothing uses a claim's devices, or report what may use them.

A claim or a pod that is gone from the API server proves nothing, because its tenant may delete both
while the container runs. A container that has ended proves nothing either. It may have passed its
open device to a container of another pod, through a socket in a volume. The proof reads the node's
processes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.node import pci
from ansible_collections.composable.infra.plugins.module_utils.node.holders import (
    cgroup_of,
    pod_of,
)
from ansible_collections.composable.infra.plugins.module_utils.node.probe import (
    NotProven,
    processes,
)

from .checkpoint import PreparedClaim, PreparedDevice


class Keepers:
    """Find the users of a claim's devices.

    ``root``: where the node's / is seen. ``node_pods``: returns all pods of the node that the API
    server has.
    """

    def __init__(self, root: Path, node_pods: Callable[[], Iterable[Json]]) -> None:
        self._root, self._node_pods = root, node_pods

    def of(self, claim: PreparedClaim) -> str:
        """Return in a sentence what may still use the claim's devices, empty if nothing can."""
        try:
            return self._openers(claim) or self._pod(claim) or self._vanished_pod()
        except NotProven as error:
            return f"the agent cannot find out whether the claim's devices are idle: {error}"

    def strangers(self, claim: PreparedClaim, prepared: Iterable[PreparedClaim]) -> str:
        """Return in a sentence which pods still use the claim's devices after its containers have
        ended.

        ``prepared``: all prepared claims. Processes of the host do not count, nor pods that may
        open any device of the node by themselves, such as the vendor's monitoring, nor pods of
        another claim for the same device.
        """
        others = {(each.namespace, each.name) for each in prepared
                  if each.uid != claim.uid and _overlap(each, claim)}
        try:
            return self._openers(claim, lambda user: self._is_stranger(user, others))
        except NotProven as error:
            return f"the agent cannot find out whether the claim's devices are idle: {error}"

    def _is_stranger(self, user: str, others: Collection[tuple[str, str]]) -> bool:
        uid = pod_of(cgroup_of(self._root, user))
        pod = self._pod_of(uid) if uid else None
        if pod is None:
            return bool(uid)
        namespace = str(pod["metadata"].get("namespace"))
        claimed = {(namespace, str(name)) for name in pods.claim_names(pod).values()}
        return not (pods.has_host_access(pod) or claimed & {*others})

    def _openers(self, claim: PreparedClaim, counts: Callable[[str], bool] = bool) -> str:
        """Name the processes that have a device of the claim open and count. Raises NotProven."""
        for device in pci.devices(self._root):
            if not any(_is(device, each) for each in claim.devices):
                continue
            users = [self._described(user) for user in pci.users(self._root, device)
                     if counts(user)]
            if users:
                return f"the device {device.address} is held open by {', '.join(users)}"
        return ""

    def _pod(self, claim: PreparedClaim) -> str:
        """Name a pod that has the claim. Its containers may open the device at any moment."""
        for pod in self._node_pods():
            meta = pod["metadata"]
            if meta.get("namespace") == claim.namespace and claim.name in pods.claim_names(pod).values() \
                    and pods.phase(pod) not in ("Succeeded", "Failed"):
                return f"the pod {meta['namespace']}/{meta['name']} uses the claim"
        return ""

    def _vanished_pod(self) -> str:
        """Name a process of a pod that the API server does not have. It may be the claim's."""
        found = (f"pid {process.name} ({_name(process)})" for process in processes(self._root)
                 if self._has_vanished(cgroup_of(self._root, process.name)))
        user = next(found, "")
        return f"a device of the claim may be used by {self._described(user)}" if user else ""

    def _described(self, user: str) -> str:
        """Add to ``pid <n> (<name>)`` the process's control group, and whether its pod is gone."""
        cgroup = cgroup_of(self._root, user)
        said = f"{user} in cgroup {cgroup}" if cgroup else user
        vanished = " of a pod that the API server does not have"
        return f"{said}{vanished}" if self._has_vanished(cgroup) else said

    def _has_vanished(self, cgroup: str) -> bool:
        uid = pod_of(cgroup)
        return bool(uid) and self._pod_of(uid) is None

    def _pod_of(self, uid: str) -> Json | None:
        return next((pod for pod in self._node_pods() if pod["metadata"].get("uid") == uid), None)


def _is(device: pci.PciDevice, prepared: PreparedDevice) -> bool:
    """Return whether a device is, or may be, the prepared device.

    Administrative access does not count.
    """
    if prepared.admin:
        return False
    same_uuid = bool(prepared.uuid) and device.uuid == prepared.uuid
    return same_uuid or device.address == prepared.address


def _overlap(one: PreparedClaim, other: PreparedClaim) -> bool:
    """Return whether two claims have a device in common."""
    return bool({each.address for each in one.devices} & {each.address for each in other.devices})


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "ended"
