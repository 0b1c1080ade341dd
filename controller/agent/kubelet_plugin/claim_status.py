# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write into the status of a prepared claim which device it has, and whether with libraries."""

from __future__ import annotations

import time

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json

from .checkpoint import PreparedClaim, PreparedDevice

READY = "Ready"


class ClaimStatus:
    """Use server-side apply as the driver's field manager, so that others' conditions on the device
    stay.
    """

    def __init__(self, client: Client, driver: str) -> None:
        self._client, self._driver = client, driver

    def write(self, prepared: PreparedClaim) -> bool:
        """Write the devices of a claim, unless its status has them already.

        Return whether it was written.

        A claim that no longer has the devices is left alone. Raises ApiError. Conflict means that
        the claim changed meanwhile.
        """
        try:
            claim = self._client.get(CLAIMS, prepared.name, prepared.namespace)
        except NotFound:
            return False
        if claim["metadata"].get("uid") != prepared.uid or not self._has_all(claim, prepared):
            return False
        if all(_stands(claim, self._entry(device, "")) for device in prepared.devices):
            return False
        now = format_time(time.time())
        meta = {key: claim["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}
        body = {"apiVersion": CLAIMS.group_version, "kind": CLAIMS.kind, "metadata": meta,
                "status": {"devices": [self._entry(device, now) for device in prepared.devices]}}
        self._client.apply(CLAIMS, prepared.name, body, prepared.namespace, "status", field_manager=self._driver)
        return True

    def _has_all(self, claim: Json, prepared: PreparedClaim) -> bool:
        keys = {(r["driver"], r["pool"], r["device"], str(r.get("shareID") or "")) for r in claims.results(claim)}
        return all((self._driver, device.pool, device.device, device.share_id) in keys for device in prepared.devices)

    def _entry(self, device: PreparedDevice, now: str) -> Json:
        libraries = "with the vendor's libraries" if device.libraries else "with device files only, without libraries"
        condition = {"type": READY, "status": "True", "reason": "Prepared", "message": f"prepared {libraries}",
                     "lastTransitionTime": now}
        data = {"pciBusID": device.address, "uuid": device.uuid, "libraries": device.libraries}
        found: Json = {"driver": self._driver, "pool": device.pool, "device": device.device,
                       "conditions": [condition], "data": data}
        return {**found, "shareID": device.share_id} if device.share_id else found


def _stands(claim: Json, wanted: Json) -> bool:
    """Return whether the claim has this entry, also if others have added to it."""
    for entry in (claim.get("status") or {}).get("devices") or []:
        if all(entry.get(key) == wanted.get(key) for key in ("driver", "pool", "device", "shareID", "data")):
            said = [(c["type"], c["status"], c.get("message")) for c in entry.get("conditions") or []]
            return all((c["type"], c["status"], c["message"]) in said for c in wanted["conditions"])
    return False
