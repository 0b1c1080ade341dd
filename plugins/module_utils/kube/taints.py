# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the scheduler from a device that is about to be detached, where the API server can say so (KEP-5055).

DeviceTaintRule is served as resource.k8s.io/v1 from 1.37, v1beta2 in 1.36 and v1alpha3 before, each behind a gate;
where it is not served there is no taint and the last look at the claims has to do.
"""

from __future__ import annotations

import contextlib
import threading

from .client import Client
from .errors import AlreadyExists, Forbidden, NotFound
from .resource import Resource

VERSIONS = ("v1", "v1beta2", "v1alpha3")
KEY = "k8s.io/device-uuid"


class DeviceTaints:
    """Taint rules named ``<ComposableResource>-taint``, as composable-resource-operator names them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._found: Resource | None = None
        self._looked = False

    def place(self, name: str, device: tuple[str, str, str], uuid: str) -> bool:
        """Taint (driver, pool, device) with NoSchedule; False where the API server serves no DeviceTaintRule."""
        rules = self._rules()
        if rules is None:
            return False
        driver, pool, device_name = device
        body = {"apiVersion": rules.group_version, "kind": rules.kind, "metadata": {"name": f"{name}-taint"},
                "spec": {"deviceSelector": {"driver": driver, "pool": pool, "device": device_name},
                         "taint": {"key": KEY, "value": uuid[:63], "effect": "NoSchedule"}}}
        try:
            self._client.create(rules, body)
        except AlreadyExists:
            return True
        except Forbidden:
            return False
        return True

    def remove(self, name: str) -> None:
        """Remove the rule; one that is not there is fine."""
        rules = self._rules()
        if rules is not None:
            with contextlib.suppress(NotFound, Forbidden):
                self._client.delete(rules, f"{name}-taint")

    def _rules(self) -> Resource | None:
        with self._lock:
            if not self._looked:
                self._found = next((r for v in VERSIONS if (r := self._served(v))), None)
                self._looked = True
            return self._found

    def _served(self, version: str) -> Resource | None:
        group_version = f"resource.k8s.io/{version}"
        try:
            listed = self._client.raw("GET", f"/apis/{group_version}").get("resources") or []
        except (NotFound, Forbidden):
            return None
        found = any(r.get("name") == "devicetaintrules" for r in listed)
        return Resource(group_version, "devicetaintrules", "DeviceTaintRule", False) if found else None
