# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attach devices. Each attach runs on its own thread and is recorded before and after the request.

The order of steps keeps devices safe. First the intent is written to the API server, then the
request is sent, then the device's UID is written to the API server. If the process ends in between,
the compose plan (``planning.node.compose``) finds the device. Right before each request, check
again that this process leads and that the device is still wanted.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import partial

from ...fabric.api import Device, FabricManager, Started
from ...fabric.errors import Busy, FabricError, Missing, Refused, Unauthorized, Unavailable, Uncertain, Withdrawn
from ...fabric.operations import handles
from ...kube.errors import AlreadyExists, ApiError, Conflict, NotFound, NotLeading
from ...net.backoff import Backoff
from ...planning.actions import Adopt, Attach, CreateResource, Resume
from ...planning.device_info import kind_of
from ...planning.node.compose import ATTACHING
from ...runtime.threads import Threads
from ..runtime.event_reporter import EventReporter
from ..runtime.fence import Fence
from ..runtime.step_marks import DecidedSteps
from ..state.cluster_state import ClusterState
from ..writers.writer import Writer

BACKOFF, ASK_AGAIN = Backoff(0.2, longest=10.0), 2.0
BLOCK_SECONDS, EXHAUSTED_BLOCK_SECONDS = 60.0, 5.0


class AttachOperations:
    """Runs requests to the CDI Manager, at most ``parallel`` at a time for each fabric.

    ``on_finished(node)`` is called when a request has ended, with any result. ``fence`` knows
    whether this process leads.
    """

    def __init__(self, state: ClusterState, writer: Writer, fabric: FabricManager, fence: Fence,
                 reporter: EventReporter, steps: DecidedSteps, threads: Threads, parallel: int,
                 on_finished: Callable[[str], object]) -> None:
        self.state, self.writer, self.fabric, self.fence = state, writer, fabric, fence
        self.reporter, self.steps, self._on_finished = reporter, steps, on_finished
        self.stopping = threading.Event()
        self._arriving: dict[str, str] = {}
        self._lock = threading.Lock()
        self._asking: set[str] = set()
        self._answered = threading.Condition()
        self._pools = threads.of_fabrics(parallel, "fabric")

    def stop(self) -> None:
        """Start no new requests. The next engine adopts requests that are in flight."""
        self.stopping.set()
        self._pools.cancel()

    def await_replies(self, seconds: float) -> list[str]:
        """Wait until all requests to the CDI Manager are answered and the answers are recorded.

        Return the ComposableResources that have no answer after ``seconds``.
        """
        with self._answered:
            self._answered.wait_for(lambda: not self._asking, seconds)
            return sorted(self._asking)

    def create(self, action: CreateResource) -> None:
        """Write the intent as a new ComposableResource, then attach on its own thread. Raise
        ApiError.

        If the ComposableResource already exists, another process created it or an earlier response
        was lost. The next plan finds out which.
        """
        name = action.name
        if not self.state.operations.begin(name):
            return
        try:
            self.writer.resources.create(name, action, action.present)
        except AlreadyExists:
            self.state.operations.end(name)
            self.writer.resources.read(name)
            return
        except BaseException:
            self.state.operations.end(name)
            raise
        self.submit(name, action.node, partial(self._attach, name, action.node, action.machine, action.model))

    def attach(self, action: Attach) -> None:
        """Write the intent on an existing ComposableResource, then attach."""

        def work() -> None:
            try:
                self.writer.resources.intent(action.resource, action.machine, action.present)
            except (Conflict, NotFound, NotLeading):
                raise
            except ApiError:
                self.stopping.wait(ASK_AGAIN)  # else the next plan would try again at once
                raise
            self._attach(action.resource, action.node, action.machine, action.model)

        if self.state.operations.begin(action.resource):
            self.submit(action.resource, action.node, work)

    def adopt(self, action: Adopt) -> None:
        """Record the UID of a device that a request without an answer attached."""
        if self.state.operations.begin(action.resource):
            self.submit(action.resource, action.node, partial(self._adopt, action))

    def _adopt(self, action: Adopt) -> None:
        known = self.state.resources.value(action.resource)
        machine = action.machine or (known.machine if known else "")
        found = {d.uid: d for d in self.fabric.machine(machine).devices}
        device = found.get(action.device)
        if device is None or self._owner(action.resource, device):
            return
        if device.shared:
            self._give_back(action, machine, device)
            return
        if self._record(action.resource, device):
            self.reporter.tell(action.resource, "Adopted", f"device {device.uid} was attached by an earlier request")

    def _give_back(self, action: Adopt, machine: str, device: Device) -> None:
        """Return a device that another machine also has, before the node notices it. It may be in
        use there."""
        twice = Refused(f"the CDI Manager shows device {device.uid} on another machine too")
        twice.device = device
        try:
            self._refused(action.resource, action.node, machine, device.model, twice)
        finally:
            self.stopping.wait(ASK_AGAIN)  # else the next plan would find the device again at once

    def resume(self, action: Resume) -> None:
        """Wait for an operation that an earlier process began."""
        known = self.state.resources.value(action.resource)
        if known is not None and self.state.operations.begin(action.resource):
            self.submit(action.resource, action.node, partial(self._resume, action, known.model))

    def _resume(self, action: Resume, model: str) -> None:
        """Take a device of the operation that no other ComposableResource has.

        Several ComposableResources may share an operation.
        """
        try:
            found = [d for d in self.fabric.resume(handles.read(action.operation)).devices if d.model in (model, "")]
        except (Missing, Refused) as error:  # the machine shows the result
            self.reporter.tell(action.resource, "OperationLost", str(error), type_="Warning")
            found = []
        except (Unavailable, Busy, Unauthorized, Uncertain) as error:
            self._failed(action.resource, str(error), "")
            self.stopping.wait(ASK_AGAIN)
            return
        device = next((d for d in found if not self._owner(action.resource, d)), None)
        if device is None:
            self.writer.resources.operation(action.resource, None)
        else:
            self._arrived(action.resource, action.node, model, device)

    def _owner(self, name: str, device: Device) -> str:
        """Return which other ComposableResource has the device or is about to get it.

        If there is none, reserve the device for ``name`` and return an empty string.
        """
        with self._lock:
            owners = self.state.resources.names_at("device", device.uid)
            found = [owner for owner in [*owners, self._arriving.get(device.uid, name)] if owner != name]
            if not found:
                self._arriving[device.uid] = name
        return next(iter(found), "")

    def _not_new(self, name: str, machine: str, device: Device) -> str:
        """Return why a device is not proven to come from a request of this ComposableResource, or
        an empty string."""
        known = self.state.resources.value(name)
        if known is None or known.machine != machine:
            return "the earlier devices of the machine are unknown"
        if device.uid in known.present:
            return "the machine had it before"
        owner = self._owner(name, device)
        return f"{owner} owns it" if owner else ""

    def _end(self, name: str) -> None:
        with self._lock:
            self._arriving = {uid: owner for uid, owner in self._arriving.items() if owner != name}
        self.state.operations.end(name)

    def submit(self, name: str, node: str, work: Callable[[], None]) -> None:
        """Run ``work`` on its own thread. No caller waits for the thread, so it reports its own
        errors."""

        def run() -> None:
            with self._answered:
                self._asking.add(name)
            try:
                work()
            except (ApiError, FabricError) as error:
                self.reporter.tell(name, "Failed", str(error), type_="Warning")
            except Exception as error:
                self.reporter.tell(name, "Failed", f"{type(error).__name__}: {error}", type_="Warning")
            finally:
                with self._answered:
                    self._asking.discard(name)
                    self._answered.notify_all()
                self._end(name)
                self._on_finished(node)

        self._pools.submit(self.state.machine_of(node)[1], run)

    def _attach(self, name: str, node: str, machine: str, model: str) -> None:
        """Request a device until the CDI Manager attaches one, refuses, or leaves the result
        uncertain.

        End early if the device is no longer wanted.
        """

        def note_handles(accepted: tuple[str, ...]) -> None:
            """Write the operation's handles. Without them a successor reads the machine after a
            crash."""
            with contextlib.suppress(ApiError):
                self.writer.resources.operation(name, handles.written(accepted))

        self.reporter.tell(name, "Attaching", f"requested 1 x {model} on node {node} from the CDI Manager")
        self.steps.requested(name, node, model)
        failures, said = 0, ""
        while self._is_wanted(name):
            if self.stopping.is_set():
                return
            try:
                if failures:
                    self._renew_intent(name, machine, model)
                device = self._ask(name, node, machine, model, note_handles)
                self._arrived(name, node, model, device)
                return
            except (Unavailable, Busy, Unauthorized) as error:
                said = self._failed(name, str(error), said)
                failures += 1
                self.stopping.wait(BACKOFF.delay(failures))
            except Withdrawn as error:
                self.reporter.about_device(name, "Withdrawn", str(error))
                break
            except Uncertain as error:
                self._failed(name, str(error), said)
                return
            except (Refused, Missing) as error:
                self._refused(name, node, machine, model, error)
                return
        if not self.stopping.is_set():
            with contextlib.suppress(NotFound, NotLeading):  # no request had an effect
                self.writer.resources.forget_intent(name)

    def _ask(self, name: str, node: str, machine: str, model: str, started: Started) -> Device:
        """Send one request. Raise FabricError."""
        with self.steps.attaching(name, node, model):
            return self.fabric.attach(machine, model, 1, self._uid(name), self._kind(name), started,
                                      proof=partial(self._prove_wanted, name)).devices[0]

    def _is_wanted(self, name: str) -> bool:
        known = self.state.resources.value(name)
        return known is not None and not known.deleting

    def _prove_wanted(self, name: str) -> None:
        """Raise Withdrawn if the device is no longer wanted. Called right before the request is
        sent."""
        self.fence.check_request()
        if self.stopping.is_set() or not self._is_wanted(name):
            raise Withdrawn("this process is stopping" if self.stopping.is_set() else "the device is no longer wanted")

    def _uid(self, name: str) -> str:
        """Return the UID of a ComposableResource.

        A manager may recognize a request by this mark. A name would not do, because it may be used
        again.
        """
        known = self.state.resources.value(name)
        return known.uid if known else name

    def _kind(self, name: str) -> str:
        """Return the device kind of a ComposableResource, as the CDI Manager names it."""
        known = self.state.resources.value(name)
        return kind_of(known.type) if known else "gpu"

    def _renew_intent(self, name: str, machine: str, model: str) -> None:
        """Write the current devices of the machine into the intent before the next try. Raise
        FabricError.

        Devices that came to the machine in the meantime belong to others.
        """
        here = [d.uid for d in self.fabric.machine(machine).devices if d.model == model]
        others = [uid for uid in here if not self.state.resources.has("device", uid)]
        self.writer.resources.intent(name, machine, others)

    def _arrived(self, name: str, node: str, model: str, device: Device) -> None:
        if owner := self._owner(name, device):
            self._failed(name, f"the CDI Manager answered with device {device.uid}, which {owner} already owns", "")
            return
        self.steps.attached(name)
        self._record(name, device)
        self.reporter.tell(name, "Attached", f"device {device.serial or device.uid} ({model}) attached to node {node}")

    def _record(self, name: str, device: Device) -> bool:
        """Write the device's UID. While the API server is unreachable, try again, so that no device
        is lost.

        If this process no longer leads, leave the write to the successor. Keep a UID that another
        process wrote in the meantime. Return whether the device is recorded.
        """
        failures = 0
        while True:
            try:
                known = self.writer.resources.record_device(name, device.uid, device.serial or "")
                if known != device.uid:
                    self.reporter.about_device(name, "NotRecorded", f"the CDI Manager answered with device "
                                               f"{device.uid}, but {known} was recorded in the meantime", "Warning")
                return known == device.uid
            except NotFound:  # etcd was restored, or the object was removed by force
                self.reporter.about_device(name, "NotRecorded", f"device {device.uid} was attached to machine "
                                           f"{device.machine}, but its ComposableResource is gone. Detach it with the "
                                           "module fabric_device when no pod uses it", "Warning")
                return False
            except NotLeading:
                return False
            except ApiError:
                failures += 1
                if self.stopping.wait(BACKOFF.delay(failures)):
                    return False

    def _failed(self, name: str, text: str, said: str) -> str:
        if text != said:
            self.reporter.tell(name, "AttachFailed", text, type_="Warning")
            self.note_error(name, ATTACHING, text)
        return text

    def note_error(self, name: str, state: str, text: str) -> None:
        """Write the state and the error of a ComposableResource. Ignore one that is gone. Raise
        ApiError."""
        try:
            self.writer.resources.set_status(name, state=state, error=text)
        except NotFound:
            return

    def _refused(self, name: str, node: str, machine: str, model: str, error: FabricError) -> None:
        """Undo a refused request and keep the model off the node for a while.

        If the error names a device that is not new, keep the device and the intent. The next plan
        then finds on the machine what the request attached.
        """
        device = error.device
        if device is not None:
            if whose := self._not_new(name, machine, device):
                self._failed(name, f"{error}. Device {device.uid} was not detached again, because {whose}", "")
                return
            self.fabric.detach(machine, device.uid, proof=self.fence.check_request)
        seconds = EXHAUSTED_BLOCK_SECONDS if getattr(error, "exhausted", False) else BLOCK_SECONDS
        self.state.blocks.block(node, model, seconds, str(error))
        self._failed(name, str(error), "")
        self.writer.resources.forget_intent(name)
