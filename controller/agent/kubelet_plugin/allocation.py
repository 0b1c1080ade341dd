# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a claim's allocation has for this driver on this node; everything else is refused in one sentence.

Results are of the node's pool, or of a pool of the fabric: those have binding conditions, and a controller has said by
now which device of the node they are.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims

from .errors import Refused

Json = dict[str, t.Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One result: a device for a request; ``request`` is that of the claim, without the alternative
    that the scheduler took. ``share_id``: of a device that several claims share, ``consumed``: which part of its
    capacity is the claim's."""

    request: str
    pool: str
    device: str
    share_id: str = ""
    admin: bool = False
    consumed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Whose results are taken: those of ``driver``, from the ``pool`` of ``node``, and from pools of the fabric."""

    driver: str
    node: str

    @property
    def pool(self) -> str:
        """The node's pool has its name."""
        return self.node

    def wanted(self, claim: Json, uid: str) -> list[Wanted]:
        """Results for this driver; those of other drivers are theirs. Raises Refused."""
        name = f"{claim['metadata'].get('namespace')}/{claim['metadata']['name']}"
        if claim["metadata"].get("uid") != uid:
            raise Refused(f"the claim {name} is another one by now: its uid is not {uid}")
        mine = [result for result in claims.results(claim) if result["driver"] == self.driver]
        if not mine:
            raise Refused(f"the claim {name} has no device of the driver {self.driver}")
        self._check_node(name, claims.node(claim))
        self._check_config(name, claim)
        return [self._wanted(name, result) for result in mine]

    def _check_node(self, name: str, node: str | None) -> None:
        if node not in (None, self.node):
            raise Refused(f"the claim {name} is allocated on node {node}, and this is node {self.node}")

    def _check_config(self, name: str, claim: Json) -> None:
        """No parameters are known yet; to ignore some would give a container other than what was asked for."""
        devices = claim["status"]["allocation"]["devices"]
        if any((entry.get("opaque") or {}).get("driver") == self.driver for entry in devices.get("config") or ()):
            raise Refused(f"the claim {name} has parameters for the driver {self.driver}, which takes none")

    def _wanted(self, name: str, result: Json) -> Wanted:
        if result["pool"] != self.pool and not result.get("bindingConditions"):
            device = f"{result['device']} of pool {result['pool']}"
            raise Refused(f"the claim {name} has {device}; allowed is pool {self.pool}, and a pool of the fabric")
        return Wanted(str(result["request"]).partition("/")[0], result["pool"], result["device"],
                      str(result.get("shareID") or ""), bool(result.get("adminAccess")),
                      {str(name): str(amount) for name, amount in (result.get("consumedCapacity") or {}).items()})
