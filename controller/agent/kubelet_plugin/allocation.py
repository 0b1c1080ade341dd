# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read which devices a claim has from this driver on this node.

Refuse any other allocation in one sentence.

A result is from the node's pool, or from a pool of the fabric. A result of a fabric pool has
binding conditions, and a controller has already written which device of the node it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json

from .errors import Refused


@dataclass(frozen=True, slots=True)
class Result:
    """One result of an allocation.

    ``request``: name of the claim's request, without the alternative that the scheduler took.
    ``share_id``: of a device that several claims share. ``consumed``: the claim's part of its
    capacity.
    """

    request: str
    pool: str
    device: str
    share_id: str = ""
    admin: bool = False
    consumed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """The node and the driver for which results are read.

    Results of ``driver`` count if they are from the pool of ``node``, or from a pool of the fabric.
    """

    driver: str
    node: str

    @property
    def pool(self) -> str:
        """The name of the node's pool is that of the node."""
        return self.node

    def results(self, claim: Json, uid: str) -> list[Result]:
        """Return the results for this driver. Results of other drivers are left out.

        Raises Refused.
        """
        name = f"{claim['metadata'].get('namespace')}/{claim['metadata']['name']}"
        if claim["metadata"].get("uid") != uid:
            raise Refused(f"the claim {name} was deleted and created again: its uid is not {uid}")
        mine = [result for result in claims.results(claim) if result["driver"] == self.driver]
        if not mine:
            raise Refused(f"the claim {name} has no device of the driver {self.driver}")
        self._check_node(name, claims.node(claim))
        self._check_config(name, claim)
        return [self._result(name, result) for result in mine]

    def _check_node(self, name: str, node: str | None) -> None:
        if node not in (None, self.node):
            raise Refused(f"the claim {name} is allocated on node {node}, but this is node {self.node}")

    def _check_config(self, name: str, claim: Json) -> None:
        """Refuse parameters for this driver.

        No parameters are known yet. If the plugin ignored some, the container would differ from the
        request.
        """
        devices = claim["status"]["allocation"]["devices"]
        if any((entry.get("opaque") or {}).get("driver") == self.driver for entry in devices.get("config") or ()):
            raise Refused(f"the claim {name} has parameters for the driver {self.driver}, which accepts none. Remove "
                          "them from the claim or its DeviceClass")

    def _result(self, name: str, result: Json) -> Result:
        if result["pool"] != self.pool and not result.get("bindingConditions"):
            device = f"{result['device']} of pool {result['pool']}"
            raise Refused(f"the claim {name} has {device}. Allowed are pool {self.pool} and pools of the fabric")
        return Result(str(result["request"]).partition("/")[0], result["pool"], result["device"],
                      str(result.get("shareID") or ""), bool(result.get("adminAccess")),
                      {str(name): str(amount) for name, amount in (result.get("consumedCapacity") or {}).items()})
