# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attaches and detaches under way: each on a thread of its own, written down before and after the manager is asked.

The order is the safety: intent in the API server, then the request, then the device's uid in the API server. Whatever
is cut off in between is found again by the compose plan (``scaling.compose``).
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ..fabric.errors import Busy, FabricError, Missing, Refused, Unauthorized, Unavailable, Uncertain
from ..fabric.types import Device, Fabric
from ..kube import cro
from ..kube.errors import ApiError, NotFound
from ..scaling.actions import Adopt, Attach, CreateResource, Detach, Resume
from ..scaling.compose import ATTACHING, DELETING, DETACHING
from .idleness import IdleProof
from .world import World
from .writer import Writer

FIRST_PAUSE, LONGEST_PAUSE, ASK_AGAIN = 0.2, 10.0, 2.0
BLOCK_SECONDS, EXHAUSTED_BLOCK_SECONDS = 60.0, 5.0
Landed = Callable[[str, str], None]
Tell = Callable[..., None]
Measured = Callable[[str, float], None]


class Flights:
    """Runs the requests to the CDI Manager. ``landed(node, model)`` is called after each that changed something."""

    def __init__(self, world: World, writer: Writer, fabric: Fabric, proof: IdleProof, parallel: int, landed: Landed,
                 tell: Tell, measured: Measured = lambda name, seconds: None) -> None:
        self.world, self.writer, self.fabric, self.proof = world, writer, fabric, proof
        self.landed, self.tell, self.measured = landed, tell, measured
        self.stopping = threading.Event()
        self._pool = ThreadPoolExecutor(parallel, thread_name_prefix="fabric")

    def stop(self) -> None:
        """Begin nothing new; what the manager is working on is adopted by the next engine."""
        self.stopping.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def create(self, action: CreateResource) -> None:
        """Write the intent as a new ComposableResource, then attach on a thread of its own. Raises ApiError."""
        name = cro.new_resource_name("gpu")
        self.world.fly(name)
        try:
            self.writer.create_resource(name, action, action.present)
        except BaseException:
            self.world.land(name)
            raise
        self._submit(name, action.node, action.model,
                     lambda: self._attach(name, action.node, action.machine, action.model))

    def _submit(self, name: str, node: str, model: str, work: Callable[[], None]) -> None:
        self._pool.submit(self._run, name, node, model, work)

    def attach(self, action: Attach) -> None:
        """Attach for a ComposableResource that exists."""
        if self.world.fly(action.resource):
            self._submit(action.resource, action.node, action.model, lambda: self._intend_and_attach(action))

    def detach(self, action: Detach) -> None:
        """Prove idle, then detach."""
        raw = self.world.resources.get(action.resource)
        if raw is not None and self.world.fly(action.resource):
            self._submit(action.resource, action.node, raw["spec"]["model"], lambda: self._detach(action))

    def adopt(self, action: Adopt) -> None:
        """Write the uid of a device that an unanswered request attached. Raises ApiError."""
        machine = cro.read_intent(self.world.resources.get(action.resource) or {"metadata": {}})[0]
        found = {d.uid: d for d in self.fabric.machine(machine).devices}
        if device := found.get(action.device):
            self._record(action.resource, device)
            self.tell(action.resource, "Adopted", f"device {device.uid} was attached by an earlier request")
            raw = self.world.resources.get(action.resource) or {}
            self.landed(action.node, raw.get("spec", {}).get("model", ""))

    def resume(self, action: Resume) -> None:
        """Wait for what an earlier process began."""
        raw = self.world.resources.get(action.resource)
        if raw is not None and self.world.fly(action.resource):
            model = raw["spec"]["model"]
            self._submit(action.resource, action.node, model, lambda: self._resume(action, model))

    def _resume(self, action: Resume, model: str) -> None:
        """Several resources may share an operation: each takes a device that nobody has."""
        try:
            found = [d for d in self.fabric.resume(action.operation).devices if d.model in (model, "")]
        except (Missing, Refused) as error:  # whatever became of it is seen on the machine
            self.tell(action.resource, "OperationLost", str(error), type_="Warning")
            found = []
        except (Unavailable, Busy, Unauthorized) as error:
            self._failed(action.resource, str(error), "")
            self.stopping.wait(ASK_AGAIN)
            return
        device = next((d for d in found if not self.world.resources.by("device", d.uid)), None)
        if device is None:
            self.writer.operation(action.resource, None)
        else:
            self._arrived(action.resource, action.node, model, device)

    def _started(self, name: str) -> Callable[[str], None]:
        """Writes an operation's handle down; without it the machine is looked at after a crash, as for others."""
        def note(handle: str) -> None:
            with contextlib.suppress(ApiError):
                self.writer.operation(name, handle)

        return note

    def _run(self, name: str, node: str, model: str, work: Callable[[], None]) -> None:
        try:
            work()
        except (ApiError, FabricError) as error:
            self.tell(name, "Failed", str(error), type_="Warning")
        except Exception as error:  # nobody waits for this thread: what goes wrong must be said here
            self.tell(name, "Failed", f"{type(error).__name__}: {error}", type_="Warning")
        finally:
            self.world.land(name)
            self.landed(node, model)

    def _intend_and_attach(self, action: Attach) -> None:
        self.writer.intent(action.resource, action.machine, action.present)
        self._attach(action.resource, action.node, action.machine, action.model)

    def _attach(self, name: str, node: str, machine: str, model: str) -> None:
        self.tell(name, "Attaching", f"asked the CDI Manager for 1 x {model} on node {node}")
        pause, said = FIRST_PAUSE, ""
        while not self.stopping.is_set() and self._wanted(name):
            try:
                began = time.monotonic()
                device = self.fabric.attach(machine, model, 1, name, started=self._started(name)).devices[0]
                self.measured("attach_seconds", time.monotonic() - began)
                self._arrived(name, node, model, device)
                return
            except (Unavailable, Busy, Unauthorized) as error:
                said = self._failed(name, str(error), said)
                self.stopping.wait(pause * random.uniform(0.8, 1.2))
                pause = min(pause * 2, LONGEST_PAUSE)
                self._renew_intent(name, machine)
            except Uncertain as error:
                self._failed(name, str(error), said)
                return
            except (Refused, Missing) as error:
                self._refused(name, node, machine, model, error)
                return
        if not self.stopping.is_set():
            self._forget(name)

    def _forget(self, name: str) -> None:
        """Nobody wants it any more, and nothing of it was ever asked for with effect."""
        try:
            self.writer.forget_intent(name)
        except NotFound:
            return

    def _wanted(self, name: str) -> bool:
        raw = self.world.resources.get(name)
        return raw is not None and not raw["metadata"].get("deletionTimestamp")

    def _renew_intent(self, name: str, machine: str) -> None:
        raw = self.world.resources.get(name)
        if raw is not None and not self.stopping.is_set():
            self.writer.intent(name, machine, cro.read_intent(raw)[2])

    def _arrived(self, name: str, node: str, model: str, device: Device) -> None:
        owners = [r for r in self.world.resources.by("device", device.uid) if r["metadata"]["name"] != name]
        if owners:
            self._failed(name, f"the CDI Manager answered with device {device.uid}, which "
                               f"{owners[0]['metadata']['name']} already owns", "")
            return
        self._record(name, device)
        self.tell(name, "Attached", f"device {device.serial or device.uid} ({model}) attached to node {node}")

    def _record(self, name: str, device: Device) -> None:
        """Write the uid down; an unreachable API server is waited for, since the device is ours to remember."""
        pause = FIRST_PAUSE
        while True:
            try:
                self.writer.resource_status(name, state=ATTACHING, error="", device_id=device.serial or "",
                                            cdi_device_id=device.uid)
                return
            except NotFound:
                self._return(device)
                return
            except ApiError:
                if self.stopping.wait(pause):
                    return
                pause = min(pause * 2, LONGEST_PAUSE)

    def _return(self, device: Device) -> None:
        """Give back a device whose ComposableResource was removed by force while it was being attached."""
        if device.machine:
            self.fabric.detach(device.machine, device.uid)

    def _failed(self, name: str, text: str, said: str) -> str:
        if text != said:
            self.tell(name, "AttachFailed", text, type_="Warning")
            self._error(name, ATTACHING, text)
        return text

    def _error(self, name: str, state: str, text: str) -> None:
        try:
            self.writer.resource_status(name, state=state, error=text)
        except NotFound:
            return

    def _refused(self, name: str, node: str, machine: str, model: str, error: FabricError) -> None:
        """The manager will not do it: undo what it did all the same, and keep the model off the node for a while."""
        device = getattr(error, "device", None)
        if device is not None:
            self.fabric.detach(machine, device.uid)
        seconds = EXHAUSTED_BLOCK_SECONDS if getattr(error, "exhausted", False) else BLOCK_SECONDS
        self.world.block(node, model, seconds, str(error))
        self._failed(name, str(error), "")
        self.writer.forget_intent(name)

    def _detach(self, action: Detach) -> None:
        if reason := self.proof.in_use(action):
            self._error(action.resource, DETACHING, f"not detached: {reason}")
            self.tell(action.resource, "DetachRefused", reason, type_="Warning")
            return
        began = time.monotonic()
        try:
            self.fabric.detach(action.machine, action.device)
            self.measured("detach_seconds", time.monotonic() - began)
        except FabricError as error:
            self._error(action.resource, DETACHING, str(error))
            self.tell(action.resource, "DetachFailed", str(error), type_="Warning")
            return
        self.writer.resource_status(action.resource, state=DELETING, error="", cdi_device_id="")
        self.tell(action.resource, "Detached", f"device {action.device} returned to the pool")
