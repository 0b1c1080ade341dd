# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that attach and detach devices of one model on one machine, and give everything back."""

from __future__ import annotations

import threading
import typing as t
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ..api import Device
from ..errors import FabricError, Missing, Refused, Unauthorized, Uncertain
from .reading import NO_MODEL, counted
from .steady import Gained, adopt, gain, give_back, held, patiently, refusal_of, refused_attach
from .subject import Skipped, Subject, Unsupported, given, listed, must

# Seconds that the dying client has to send its request.
BLINK: t.Final = 1.0


def a_device_is_attached_and_detached(subject: Subject) -> str:
    """An attached device is on the machine and is not free. A detached device is free again."""
    before = _free(subject)
    gained = gain(subject, subject.wanted, 1)
    (device,) = gained.devices
    _on_the_machine(subject, device, subject.wanted, subject.kind)
    _are_free(subject, before - 1, f"{before} were free, {{}} are after an attach")
    give_back(subject, gained.devices)
    _are_free(subject, before, f"{before} were free, {{}} are after attach and detach")
    return "" if subject.fabric.capabilities.counts_free else "free ones are not counted"


def _free(subject: Subject) -> int:
    """Return the number of free devices, or 0 if the manager does not count them."""
    if not subject.fabric.capabilities.counts_free:
        return 0
    return patiently(subject, lambda: subject.fabric.free(subject.on, subject.wanted))


def _are_free(subject: Subject, wanted: int, otherwise: str) -> None:
    if subject.fabric.capabilities.counts_free:
        found = _free(subject)
        must(found == wanted, otherwise.format(found))


def _on_the_machine(subject: Subject, device: Device, model: str, kind: str) -> None:
    must((device.model, device.kind) == (model, kind), f"a {device.kind} {device.model} came, not a {kind} {model}")
    must(device.machine == subject.on, f"device {device.uid} names machine {device.machine}")
    must(device.state == "attached", f"device {device.uid} is {device.state}")
    must(device.health in ("OK", "Warning", "Unknown"), f"device {device.uid} is {device.health}")
    others = [m.uid for m in patiently(subject, subject.fabric.machines)
              if m.uid != subject.on and any(d.uid == device.uid for d in m.devices)]
    must(not others, f"device {device.uid} is on {others} too")


def detaching_twice_is_done(subject: Subject) -> str:
    """The second detach of a device does nothing and gives no error."""
    (device,) = gain(subject, subject.wanted, 1).devices
    give_back(subject, [device])
    task = patiently(subject, lambda: subject.fabric.detach(subject.on, device.uid))
    must(task.done, "the second detach did not end")
    return ""


def detaching_an_unknown_device_is_done(subject: Subject) -> str:
    """Detaching a device that does not exist gives no error."""
    task = patiently(subject, lambda: subject.fabric.detach(subject.on, str(uuid.uuid4())))
    must(task.done, "the detach did not end")
    return ""


def several_devices_by_one_call(subject: Subject) -> str:
    """One call attaches as many different devices as it asks for."""
    gained = gain(subject, subject.wanted, subject.at_most)
    must(len({d.uid for d in gained.devices}) == subject.at_most, f"{listed(gained.devices)} came")
    give_back(subject, gained.devices)
    return "one request" if subject.fabric.capabilities.batch else "one request for each"


def parallel_attaches_get_different_devices(subject: Subject) -> str:
    """Attaches at the same time each get a device, and never the same one."""
    before = held(subject, subject.wanted)
    with ThreadPoolExecutor(subject.at_most) as pool:
        told = list(pool.map(lambda _number: _attach_once(subject), range(subject.at_most)))
    named = [d.uid for each in told for d in each.devices]
    must(len(set(named)) == len(named), f"two requests received the same device: {sorted(named)}")
    must(not set(named) & set(before), f"a request received a device that was attached before: {sorted(named)}")
    came = adopt(subject, subject.wanted, before, count=_may_come(told))
    missing = subject.at_most - len(came)
    if missing > 0:
        came += gain(subject, subject.wanted, missing).devices
    must(len({d.uid for d in came}) >= subject.at_most, f"only {listed(came)} came")
    give_back(subject, came)
    return ""


class Told(t.NamedTuple):
    """The answer to one request. If its reply was ``lost``, a device may still be attached."""

    devices: tuple[Device, ...]
    lost: bool = False


def _may_come(told: Sequence[Told]) -> int:
    """Return the number of devices that were named or may still be attached."""
    return len({d.uid for each in told for d in each.devices}) + sum(each.lost for each in told)


def _attach_once(subject: Subject, token: str | None = None) -> Told:
    try:
        return Told(subject.fabric.attach(subject.on, subject.wanted, token=token, kind=subject.kind).devices)
    except FabricError as error:
        return Told(error.devices, isinstance(error, Uncertain))


def a_repeated_token_loses_no_device(subject: Subject) -> str:
    """For two attaches with one token, the manager recognizes it, or callers find all devices."""
    token = str(uuid.uuid4())
    before = held(subject, subject.wanted)
    told = [_attach_once(subject, token) for _unused in range(2)]
    asked = {d.uid for each in told for d in each.devices}
    came = {d.uid: d for d in adopt(subject, subject.wanted, before, count=_may_come(told))}
    must(asked <= set(came) or not asked, f"{sorted(asked)} were promised, {sorted(came)} came")
    known = len(asked) == 1 and all(len(each.devices) == 1 for each in told)
    if not came:
        came = {d.uid: d for d in gain(subject, subject.wanted, 1).devices}
    give_back(subject, came.values())
    return "a repeated token is recognized" if known else "a token is not recognized, read the machine first"


def a_crash_loses_no_device(subject: Subject) -> str:
    """The caller dies between request and reply. Its successor finds the one device that was attached."""
    before = held(subject, subject.wanted)
    handles, asker = _die_asking(subject)
    try:
        found = adopt(subject, subject.wanted, before, handles)
        missing = 1 - len(found)
        gained = gain(subject, subject.wanted, missing) if missing > 0 else Gained(())
    finally:
        asker.join()
    came = [d for uid, d in held(subject, subject.wanted).items() if uid not in before]
    must(len(came) >= 1, "no device came")
    must({d.uid for d in (*found, *gained.devices)} <= {d.uid for d in came}, "an adopted device is gone again")
    give_back(subject, came)
    return "found by its operation" if subject.fabric.capabilities.asynchronous else "found by reading the machine"


def _die_asking(subject: Subject) -> tuple[tuple[str, ...], threading.Thread]:
    """Attach with a separate client, and return only the handles of the operation."""
    accepted: list[str] = []
    over = threading.Event()

    def started(handles: tuple[str, ...]) -> None:
        accepted.extend(handles)
        over.set()

    def ask() -> None:
        fabric = subject.connect()
        try:
            fabric.attach(subject.on, subject.wanted, token=str(uuid.uuid4()), kind=subject.kind, started=started)
        except FabricError:
            return
        finally:
            over.set()
            fabric.close()

    asker = threading.Thread(target=ask, name="dying-asker", daemon=True)
    asker.start()
    over.wait(BLINK)
    return tuple(accepted), asker


def an_exhausted_model_is_refused(subject: Subject) -> str:
    """An attach without a free device is refused as exhausted. It works again when a device is free."""
    model = given(subject.scarce, "scarce")
    counted(subject)
    count = patiently(subject, lambda: subject.fabric.free(subject.on, model))
    if not 0 < count <= subject.at_most:
        raise Skipped(f"{count} of {model} are free, which is not from 1 to at_most ({subject.at_most})")
    gained = gain(subject, model, count)
    error = refused_attach(subject, model)
    must(isinstance(error, Refused) and error.exhausted, f"a request for one more was answered with {error!r}")
    give_back(subject, gained.devices[:1])
    again = gain(subject, model, 1)
    give_back(subject, [*gained.devices[1:], *again.devices])
    return ""


def an_unknown_model_is_refused(subject: Subject) -> str:
    """An attach of an unknown model is refused for good. Nothing is attached."""
    return _refused(subject, NO_MODEL, subject.on)


def an_unknown_machine_is_refused(subject: Subject) -> str:
    """An attach to an unknown machine is refused. Nothing is attached to any machine."""
    unknown = str(uuid.uuid4())
    return _refused(subject, subject.wanted, unknown)


def a_foreign_machine_is_refused(subject: Subject) -> str:
    """An attach to a machine of another tenant is refused. Nothing is attached."""
    foreign = subject.theirs
    return _refused(subject, subject.wanted, foreign)


def _refused(subject: Subject, model: str, machine: str) -> str:
    before = {d.uid for d in patiently(subject, subject.fabric.devices) if d.state != "free"}
    error = refused_attach(subject, model, machine)
    must(isinstance(error, (Refused, Missing, Unauthorized)), f"it was answered with {error!r}")
    after = {d.uid for d in patiently(subject, subject.fabric.devices) if d.state != "free"}
    must(after == before, f"attached since: {sorted(after - before)}, detached: {sorted(before - after)}")
    return type(error).__name__


def a_device_of_another_machine_stays(subject: Subject) -> str:
    """A detach that names the wrong machine leaves the device where it is."""
    others = [m for m in patiently(subject, subject.fabric.machines) if m.uid != subject.on and m.devices]
    if not others:
        raise Skipped("no other machine has a device")
    owner = min(others, key=lambda m: m.uid)
    device = min(owner.devices, key=lambda d: d.uid)
    error = refusal_of(subject, lambda fabric: fabric.detach(subject.on, device.uid))
    must(error is None or isinstance(error, (Refused, Missing)), f"it was answered with {error!r}")
    kept = held(subject, device.model, owner.uid)
    must(device.uid in kept, f"device {device.uid} was taken from machine {owner.uid}")
    return ""


def an_unhealthy_device_is_refused(subject: Subject) -> str:
    """An unhealthy device is refused. When it is attached already, the error names it, so that it can be detached."""
    model = given(subject.sick, "sick")
    error = refused_attach(subject, model)
    must(isinstance(error, Refused), f"it was answered with {error!r}")
    came = held(subject, model)
    named = error.device if error else None
    must(not came or (named is not None and named.uid in came), f"{sorted(came)} came and is not named: {error}")
    give_back(subject, came.values())
    return "refused after the attach, and named" if named else "refused before the attach"


def memory_is_attached_and_detached(subject: Subject) -> str:
    """A memory device is attached and detached as other devices are. It has a size."""
    model = given(subject.memory, "memory")
    if "memory" not in subject.fabric.capabilities.kinds:
        raise Unsupported(f"it attaches {', '.join(subject.fabric.capabilities.kinds)} only")
    (device,) = gain(subject, model, 1, "memory").devices
    _on_the_machine(subject, device, model, "memory")
    must(bool(device.size), f"memory device {device.uid} has no size")
    give_back(subject, [device])
    return ""
