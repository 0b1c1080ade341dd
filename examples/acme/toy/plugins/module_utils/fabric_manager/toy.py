# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of the Toy Composer, a REST service that attaches one device per request and replies
when it is done.

============================================  ==============================================================
Request, below ``/toy/v1/racks/RACK``         Reply
============================================  ==============================================================
``GET /hosts``, ``GET /hosts/HOST``           hosts with their devices
``GET /devices``                              all devices
``POST /hosts/HOST/devices``                  ``{"model", "kind"}`` attaches a free device, which is returned
``DELETE /hosts/HOST/devices/DEVICE``         detaches a device, no content
============================================  ==============================================================

An error is ``{"error": {"code", "message"}}``. If the reply of an attach is lost, the device may
have come or not. Then the session raises Uncertain, and the caller reads the machine before
anything else.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterable
from urllib.parse import quote

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import (
    Capabilities,
    Device,
    FabricSnapshot,
    Machine,
    Proof,
    Started,
    Task,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.replies import (
    Unreadable,
    healthy,
    read_reply,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    FabricError,
    Missing,
    Refused,
    gravest,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.external import register
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import ErrorBody, Request
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.session import Session
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations.parallel import outcomes
from ansible_collections.composable.infra.plugins.module_utils.fabric.registry import DriverOption, ManagerEntry

NAME: t.Final = "acme.toy.toy"
EXHAUSTED: t.Final = "exhausted"


class ToyDriver:
    """Client of one Toy Composer. Thread-safe. See ``FabricManager``."""

    capabilities: t.Final = Capabilities(asynchronous=False, batch=False, lists_free=True, kinds=("gpu", "memory"))

    def __init__(self, config: FabricConfig) -> None:
        self._config = config
        self._session = Session(config, read_error)

    def machines(self) -> tuple[Machine, ...]:
        """Return all hosts of the rack, by one request."""
        request = Request("GET", self._path("hosts"), "list the hosts")
        return read_reply(self._session, request, lambda body: tuple(machine(each) for each in listed(body, "hosts")))

    def machine(self, uid: str) -> Machine:
        """Return one host. Raises Missing if the Toy Composer does not know it."""
        return read_reply(self._session, Request("GET", self._path("hosts", uid), f"read host {uid}"), machine)

    def free(self, machine_uid: str, model: str) -> int:
        """Return how many devices of the model are free on the fabric of the host."""
        fabric = self.machine(machine_uid).fabric
        return sum(usable(each, model) and each.fabric == fabric for each in self.devices())

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Return hosts, and the free devices of each model and fabric, by two requests."""
        taken = time.time()
        machines, devices = {found.uid: found for found in self.machines()}, self.devices()
        fabrics = {found.fabric for found in machines.values() if found.fabric is not None}
        free = {(model, fabric): sum(usable(each, model) and each.fabric == fabric for each in devices)
                for model in models for fabric in fabrics}
        return FabricSnapshot(machines, free, taken, read=time.time())

    def devices(self) -> tuple[Device, ...]:
        """Return all devices of the rack, by one request."""
        request = Request("GET", self._path("devices"), "list the devices")
        return read_reply(self._session, request, lambda body: tuple(device(each) for each in listed(body, "devices")))

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
        started: Started | None = None, proof: Proof | None = None,
    ) -> Task:
        """Attach ``count`` devices, each by a request of its own."""
        results = outcomes(lambda _number: self._attach_one(machine_uid, model, kind, proof), range(count))
        came = tuple(result for result in results if isinstance(result, Device))
        errors = tuple(result for result in results if isinstance(result, FabricError))
        if errors:
            raise errors[0] if count == 1 else gravest(errors, came)
        return Task(True, came)

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        """Detach one device. Read the host first.

        If it does not have the device, the detach is done.
        """
        found = self._find(machine_uid, device_uid)
        if found is None:
            return Task(True)
        request = Request(
            "DELETE", self._path("hosts", machine_uid, "devices", device_uid),
            f"detach device {device_uid} from host {machine_uid}", timeout=self._config.attach_timeout, effect=True,
            reads=False, proof=proof,
        )
        try:
            self._session.call(request)
        except Missing:
            if self._find(machine_uid, device_uid) is not None:
                raise
        return Task(True, (found,))

    def resume(self, handles: tuple[str, ...]) -> Task:
        """Raise Missing. The Toy Composer replies when it is done, so nothing is pending."""
        raise Missing(f"cannot wait for operation {', '.join(handles)}: the Toy Composer has no operations")

    def close(self) -> None:
        """Close all kept connections."""
        self._session.close()

    def _find(self, machine_uid: str, device_uid: str) -> Device | None:
        return next((each for each in self.machine(machine_uid).devices if each.uid == device_uid), None)

    def _attach_one(self, machine_uid: str, model: str, kind: str, proof: Proof | None) -> Device:
        request = Request(
            "POST", self._path("hosts", machine_uid, "devices"), f"attach a {model} to host {machine_uid}",
            body={"model": model, "kind": kind}, timeout=self._config.attach_timeout, effect=True, proof=proof,
        )
        try:
            return healthy(read_reply(self._session, request, device), "health")
        except (Missing, Refused) as error:
            if error.code == EXHAUSTED:
                raise Refused(error.message, exhausted=True, code=error.code, detail=error.detail) from None
            raise

    def _path(self, *parts: str) -> str:
        words = ("racks", self._config.driver_options["rack"], *parts)
        return "/toy/v1/" + "/".join(quote(str(word), safe="") for word in words)


def read_error(body: t.Any) -> ErrorBody | None:
    """Return code and message of an error, None if the body is not in the Toy Composer's form."""
    error = body.get("error") if isinstance(body, dict) else None
    return ErrorBody(str(error.get("code")), str(error.get("message"))) if isinstance(error, dict) else None


def listed(body: t.Any, name: str) -> list[t.Any]:
    """Return a list of a reply. Raises Unreadable."""
    found = body.get(name) if isinstance(body, dict) else None
    if not isinstance(found, list):
        raise Unreadable(f"it has no list {name}")
    return found


def machine(body: t.Any) -> Machine:
    """Return a host. Raises Unreadable."""
    try:
        return Machine(str(body["id"]), str(body["name"]), body["fabric"],
                       tuple(device(each) for each in body["devices"]))
    except (KeyError, TypeError) as error:
        raise Unreadable(f"a host cannot be read: {error}") from None


def device(body: t.Any) -> Device:
    """Return a device. Raises Unreadable."""
    try:
        return Device(
            uid=str(body["id"]), model=str(body["model"]), kind=body["kind"], fabric=body["fabric"],
            machine=body["host"], state=body["state"], health=body["health"], serial=body["serial"],
            name=body["name"], size=body["size"],
        )
    except (KeyError, TypeError) as error:
        raise Unreadable(f"a device cannot be read: {error}") from None


def usable(found: Device, model: str) -> bool:
    """Return whether a device is free, of the model, and not broken."""
    return found.state == "free" and found.model == model and found.health != "Critical"


register(NAME, ManagerEntry(auth=("basic",), options={"rack": DriverOption(default="main")}), ToyDriver, interface=1)
