# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Driver for Fsas Fabric Manager (FM), a synchronous REST API with one device per request.

An FM attach is not idempotent, so a repeated request attaches a second device. After a lost reply
the driver raises Uncertain and never repeats the request. The caller reads the machine and adopts
the new devices.
"""

from __future__ import annotations

import json
import re
import time
import typing as t
from collections.abc import Iterable
from urllib.parse import quote, urlencode

from ...api import Capabilities, Device, FabricSnapshot, Machine, Proof, Started, Task
from ...config import FabricConfig
from ...errors import FabricError, Missing, Refused, gravest
from ...http.request import Request
from ...http.session import Session
from ...operations.parallel import outcomes
from ..shared import fsas
from ..shared.replies import healthy, read_reply
from . import wire

PREFIX: t.Final = "/fabric_manager/api/v1/machines"
_EXHAUSTED = re.compile(r"insufficient|exhausted|not enough|no (?:free|available)", re.IGNORECASE)


class FmDriver:
    """Client of one FM for one tenant. Thread-safe. See ``api.FabricManager``."""

    capabilities: t.Final = Capabilities(asynchronous=False, batch=False)

    def __init__(self, config: FabricConfig, session: Session | None = None) -> None:
        self._config = config
        self._session = session or Session(config, fsas.read_error)

    def machines(self) -> tuple[Machine, ...]:
        """Return all machines of the tenant, by one request."""
        request = Request("GET", self._path(), f"list the machines of tenant {self._config.tenant}")
        return tuple(wire.machine(entry) for entry in read_reply(self._session, request, wire.entries))

    def machine(self, uid: str) -> Machine:
        """Return one machine. Raise Missing if FM does not know it."""
        request = Request("GET", self._path(uid), f"read machine {uid} of tenant {self._config.tenant}")
        found = read_reply(self._session, request, lambda body: wire.entry_of(body, uid))
        if found is None:
            raise Missing(f"cannot {request.purpose}: the CDI Manager knows no such machine")
        return wire.machine(found)

    def free(self, machine_uid: str, model: str, kind: str = "gpu") -> int:
        """Return how many devices of ``model`` can be attached to the machine now."""
        condition = json.dumps({"column": "model", "operator": "eq", "value": model}, separators=(",", ":"))
        path = self._path(machine_uid, "available-reserved-resources", res_type=kind, condition=condition)
        request = Request("GET", path, f"count free {model} through machine {machine_uid}")
        return read_reply(self._session, request, wire.available)

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """List the machines, then count each (model, fabric) in parallel through one machine."""
        taken = time.time()
        machines = {m.uid: m for m in self.machines()}
        through = {m.fabric: m.uid for m in reversed(machines.values()) if m.fabric is not None}
        keys = [(model, fabric) for model in dict.fromkeys(models) for fabric in sorted(through)]
        counts = outcomes(lambda key: self.free(through[key[1]], key[0]), keys)
        free = {key: n for key, n in zip(keys, counts, strict=True) if isinstance(n, int)}
        failed = ((key, e) for key, e in zip(keys, counts, strict=True) if isinstance(e, FabricError))
        problems = {f"{model}/{fabric}": f"fabric {fabric}: {e.message}" for (model, fabric), e in failed}
        return FabricSnapshot(machines, free, taken, problems)

    def devices(self) -> tuple[Device, ...]:
        """Return the devices attached to any machine. FM only counts free devices."""
        return tuple(device for machine in self.machines() for device in machine.devices)

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
        started: Started | None = None, proof: Proof | None = None,
    ) -> Task:
        """Attach ``count`` devices in parallel, each by its own request.

        FM does not support ``token``. Raise Refused with ``device`` if FM attached an unhealthy
        device. If only some devices were attached, the error has ``devices``.
        """
        if count == 1:
            return Task(True, (self._attach_one(machine_uid, model, kind, proof),))
        results = outcomes(lambda _number: self._attach_one(machine_uid, model, kind, proof), range(count))
        devices = tuple(r for r in results if isinstance(r, Device))
        errors = tuple(r for r in results if isinstance(r, FabricError))
        if errors:
            raise gravest(errors, devices)
        return Task(True, devices)

    def resume(self, handles: tuple[str, ...]) -> Task:
        """Raise Missing, as FM answers when it is done and has no operation to wait for."""
        raise Missing(f"cannot wait for operation {', '.join(handles)}: FM has no asynchronous operations")

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        """Detach one device. Read it first, as FM answers a second DELETE with an error.

        If two readings do not show the device, send no request.
        """
        device = self._find(machine_uid, device_uid) or self._find(machine_uid, device_uid)
        if device is None:
            return Task(True)
        request = Request(
            "DELETE", self._path(machine_uid, "update"), f"detach device {device_uid} from machine {machine_uid}",
            body=wire.detach_body(self._config.tenant, machine_uid, device_uid, device.kind),
            timeout=self._config.attach_timeout, effect=True, reads=False, proof=proof,
        )
        try:
            self._session.call(request)
        except Missing:
            if self._find(machine_uid, device_uid) is not None:
                raise
        return Task(True, (device,))

    def close(self) -> None:
        """Close all idle connections."""
        self._session.close()

    def _find(self, machine_uid: str, device_uid: str) -> Device | None:
        return next((d for d in self.machine(machine_uid).devices if d.uid == device_uid), None)

    def _attach_one(self, machine_uid: str, model: str, kind: str, proof: Proof | None) -> Device:
        request = Request(
            "PATCH", self._path(machine_uid, "update"), f"attach a {model} to machine {machine_uid}",
            body=wire.attach_body(self._config.tenant, machine_uid, model, kind),
            timeout=self._config.attach_timeout, effect=True, proof=proof,
        )
        try:
            device, op_status = read_reply(
                self._session, request, lambda body: wire.attached(body, machine_uid, model, kind)
            )
        except (Missing, Refused) as error:
            raise self._why_not(error, machine_uid, model, kind) from None
        return healthy(device, f"res_op_status {op_status!r}")

    def _why_not(self, error: FabricError, machine_uid: str, model: str, kind: str) -> FabricError:
        """Mark a refusal as exhausted by FM's text, or by counting the free devices."""
        exhausted = bool(_EXHAUSTED.search(f"{error.code} {error.detail}"))
        if not exhausted:
            try:
                exhausted = self.free(machine_uid, model, kind) == 0
            except FabricError:
                return error
        if not exhausted:
            return error
        return Refused(error.message, exhausted=True, code=error.code, detail=error.detail)

    def _path(self, *parts: str, **query: str) -> str:
        where = "/".join([PREFIX, *(quote(part, safe="") for part in parts)])
        return f"{where}?{urlencode({'tenant_uuid': self._config.tenant, **query})}"
