# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ResourceClaim as its object says, read once when the object comes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """One device of an allocation. ``binding``: it has binding conditions, so it is a pool device."""

    request: str
    driver: str
    pool: str
    device: str
    binding: bool


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """The allocation of a ResourceClaim and who has it. Times are epoch seconds.

    - ``identity``: its UID, or for a special claim a key that stays the same
      (``kube/objects/claims.py``).
    - ``allocated_at``: when the allocation was written, else when the claim was created.
    - ``node``: the node in the allocation, else empty.
    - ``phase``: CoHDI's state of its pool devices (``planning/node/demand.py``).
    - ``pods``: (name, UID) of each pod that it is reserved for.
    - ``reserved``: it is reserved for pods, or for a PodGroup, which does not name its pods.
    """

    name: str
    namespace: str
    uid: str
    identity: str
    created: float
    allocated_at: float
    node: str
    phase: str
    results: tuple[Result, ...]
    pods: tuple[tuple[str, str], ...]
    reserved: bool

    @property
    def key(self) -> str:
        """Return ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def pool_results(self) -> tuple[Result, ...]:
        """Return the pool devices of the allocation."""
        return tuple(result for result in self.results if result.binding)
