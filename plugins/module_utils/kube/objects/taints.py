# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep kube-scheduler from a device that is about to be detached, if the API server supports it
(KEP-5055).

DeviceTaintRule is served as ``resource.k8s.io/v1`` from 1.37, v1beta2 in 1.36 and v1alpha3 before,
each behind a feature gate. If it is not served there is no taint, and only the last check of the
claims protects the device.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Collection, Sequence

from ...model.value import Json
from ..api_resources import ApiResource
from ..client.verbs import Client
from ..errors import AlreadyExists, Forbidden, NotFound, NotServed
from .claims import DeviceKey

_KEY = ("driver", "pool", "device")
VERSIONS = ("v1", "v1beta2", "v1alpha3")
KEY = "k8s.io/device-uuid"


def _rule_name(resource: str, part: str) -> str:
    return f"{resource}-taint" + (f"-{hashlib.sha256(part.encode()).hexdigest()[:8]}" if part else "")


def _key_of(rule: Json) -> DeviceKey | None:
    """Return (driver, pool, device) of a rule, None if it selects more than one device."""
    selected = rule["spec"].get("deviceSelector") or {}
    if not selected.keys() >= {*_KEY}:
        return None
    return str(selected["driver"]), str(selected["pool"]), str(selected["device"])


class DeviceTaints:
    """Taint rules named ``<ComposableResource>-taint``, as composable-resource-operator names them.

    Rules for parts of a device, such as MIG partitions, have a suffix.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._found: ApiResource | None = None
        self._looked = False

    def place(self, name: str, devices: Sequence[tuple[str, str, str]], uuid: str) -> bool:
        """Taint a device and its parts with NoSchedule, so that no new claim gets one of them
        (KEP-5055).

        ``name``: name of the ComposableResource. ``devices``: (driver, pool, device) as in its
        ResourceSlices, the whole first. ``uuid``: becomes the taint's value. Return False if
        DeviceTaintRule is not served or may not be created. An existing rule for the device counts
        as created. Raise ApiError for any other refusal.
        """
        rules = self._rules()
        if rules is None:
            return False
        taint = {"key": KEY, "value": uuid[:63], "effect": "NoSchedule"}
        try:
            for number, key in enumerate(devices):
                spec = {"deviceSelector": dict(zip(_KEY, key, strict=True)), "taint": taint}
                if number or not self._create(rules, _rule_name(name, ""), spec):
                    self._create(rules, _rule_name(name, "/".join(key)), spec)
        except Forbidden:
            return False
        return True

    def _create(self, rules: ApiResource, name: str, spec: Json) -> bool:
        """Create a rule. Return whether the rule of this name selects this device.

        An existing rule may be for a device that had the name before. Raise Forbidden.
        """
        body = {"apiVersion": rules.group_version, "kind": rules.kind, "metadata": {"name": name}, "spec": spec}
        try:
            self._client.create(rules, body)
        except AlreadyExists:
            return any(rule["metadata"]["name"] == name and rule["spec"]["deviceSelector"] == spec["deviceSelector"]
                       for rule in self._client.list(rules).items)
        return True

    def placed(self) -> dict[str, frozenset[DeviceKey]]:
        """Return the tainted slice entries, as (driver, pool, device), by ComposableResource, even
        if it is gone.

        Return none if rules are not served or may not be listed.
        """
        rules, found = self._rules(), dict[str, frozenset[DeviceKey]]()
        with contextlib.suppress(NotFound, NotServed, Forbidden):
            for rule in self._client.list(rules).items if rules else ():
                resource, ours, _part = rule["metadata"]["name"].rpartition(_rule_name("", ""))
                ours = ours and (rule["spec"].get("taint") or {}).get("key") == KEY
                if ours and (key := _key_of(rule)):
                    found[resource] = found.get(resource, frozenset()) | {key}
        return found

    def remove(self, name: str) -> None:
        """Remove the rules of a ComposableResource. It is no error if there are none."""
        rules = self._rules()
        if rules is None:
            return
        with contextlib.suppress(NotFound, NotServed, Forbidden):
            self._client.delete(rules, _rule_name(name, ""))
        self._delete(rules, name, lambda _key: True)

    def lift(self, name: str, devices: Collection[DeviceKey]) -> None:
        """Remove the rules of a ComposableResource for these slice entries."""
        if rules := self._rules():
            self._delete(rules, name, lambda key: key in devices)

    def _delete(self, rules: ApiResource, name: str, chosen: Callable[[DeviceKey | None], bool]) -> None:
        with contextlib.suppress(NotFound, NotServed, Forbidden):
            for rule in self._client.list(rules).items:
                if rule["metadata"]["name"].startswith(_rule_name(name, "")) and chosen(_key_of(rule)):
                    with contextlib.suppress(NotFound):
                        self._client.delete(rules, rule["metadata"]["name"])

    def _rules(self) -> ApiResource | None:
        with self._lock:
            if not self._looked:
                self._found = next((r for v in VERSIONS if (r := self._served(v))), None)
                self._looked = True
            return self._found

    def _served(self, version: str) -> ApiResource | None:
        group_version = f"resource.k8s.io/{version}"
        try:
            listed = self._client.raw("GET", f"/apis/{group_version}").get("resources") or []
        except (NotFound, NotServed, Forbidden):
            return None
        found = any(r.get("name") == "devicetaintrules" for r in listed)
        return ApiResource(group_version, "devicetaintrules", "DeviceTaintRule", False) if found else None
