# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wanted attachment with its result, and the checks of attachments before any request."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..api import Device, Machine
from ..errors import BadConfiguration, FabricError
from .listing import device_row


@dataclass(frozen=True, slots=True)
class AttachmentSpec:
    """The wanted state of one machine.

    ``machine`` is a uid or a name. With ``state`` ``attached`` the machine gets at least ``count``
    devices (None means 1) of ``model`` and ``kind``, and no more with ``exact``. With ``handle``
    (see ``operations.handles``) the task waits for the operations of an earlier task instead. With
    ``state`` ``detached`` the machine loses ``device`` (a uid) or every device of ``model``. Errors
    put ``where`` before the name of an option.
    """

    machine: str
    state: str = "attached"
    model: str | None = None
    count: int | None = None
    kind: str = "gpu"
    device: str | None = None
    handle: str | None = None
    where: str = ""
    exact: bool = False

    @property
    def total(self) -> int:
        """Number of wanted devices of the model."""
        return 0 if self.state == "detached" else 1 if self.count is None else self.count

    @property
    def limits(self) -> bool:
        """Whether surplus devices are detached."""
        return self.exact or self.state == "detached"


@dataclass(frozen=True, slots=True)
class AttachmentResult:
    """Result of a spec. ``before`` and ``after`` count the devices of ``model`` on the machine.

    ``handles`` are operations in flight. ``seconds`` is the duration.
    """

    spec: AttachmentSpec
    machine: Machine | None = None
    model: str | None = None
    before: int = 0
    after: int = 0
    devices: tuple[Device, ...] = ()
    handles: tuple[str, ...] = ()
    seconds: float = 0.0
    error: FabricError | None = None

    @property
    def changed(self) -> bool:
        """Whether the number of devices on the machine changes."""
        return self.before != self.after


def refuse_incomplete(spec: AttachmentSpec) -> None:
    """Raise BadConfiguration if a spec lacks a required option or has one of the other state."""
    if spec.state == "detached":
        _refuse_detach(spec)
    else:
        _refuse_attach(spec)


def _refuse_detach(spec: AttachmentSpec) -> None:
    if not (spec.device or spec.model):
        raise BadConfiguration(f"{spec.where}device", spec.device, "state detached needs the uid of a device, or a "
                                                                   "model")
    if spec.device and spec.model:
        raise BadConfiguration(f"{spec.where}model", spec.model, "state detached takes either a device or a model")
    if spec.count is not None or spec.exact:
        raise BadConfiguration(f"{spec.where}count", spec.count, "state detached leaves no device of the model. "
                                                                 "To keep some, use state attached with exact")


def _refuse_attach(spec: AttachmentSpec) -> None:
    if not (spec.model or spec.handle) or (spec.exact and not spec.model):
        raise BadConfiguration(f"{spec.where}model", spec.model, "state attached needs a model, or a handle")
    if spec.device:
        raise BadConfiguration(f"{spec.where}device", spec.device, "only state detached takes it: which device is "
                                                                   "attached is chosen by the CDI Manager")
    if spec.total < (0 if spec.exact else 1):
        raise BadConfiguration(f"{spec.where}count", spec.count,
                               "it must be 0 or more" if spec.exact else "it must be 1 or more, or 0 with exact")


def refuse_doubles(planned: Iterable[AttachmentResult]) -> None:
    """Raise BadConfiguration for two specs about one object, as their order would decide."""
    planned = list(planned)
    asked = Counter((one.machine.uid, one.spec.device or one.spec.handle or one.model or "")
                    for one in planned if one.machine)
    for (machine, what), times in asked.items():
        if times > 1:
            raise BadConfiguration("attachments", f"{what} on machine {machine}", f"name it once, not {times} times")
    leaving = Counter(device.uid for one in planned for device in one.devices)
    for uid, times in leaving.items():
        if times > 1:
            raise BadConfiguration("attachments", uid, "its uid and its model both detach it. Name it once")


def counts(
    results: Iterable[AttachmentResult], attribute: t.Literal["before", "after"]
) -> Mapping[str, Mapping[str, int]]:
    """Return one side of a diff: the devices by machine name and model, before or after."""
    before: dict[tuple[str, str], int] = {}
    moved: Counter[tuple[str, str]] = Counter()
    for one in results:
        if one.machine and one.model:
            key = one.machine.name, one.model
            before[key] = max(before.get(key, 0), one.before)
            moved[key] += one.after - one.before
    found: dict[str, dict[str, int]] = {}
    for (machine, model), have in sorted(before.items()):
        found.setdefault(machine, {})[model] = have + (moved[machine, model] if attribute == "after" else 0)
    return found


def as_result(results: Sequence[AttachmentResult]) -> dict[str, t.Any]:
    """Return the result of a module: a row for each spec, and a failure if a spec failed."""
    rows = [_row(one) for one in results]
    failed = [one for one in results if one.error]
    result: dict[str, t.Any] = {
        "changed": any(one.changed for one in results), "results": rows,
        "devices": [device for row in rows for device in row["devices"]],
        "diff": {"before": counts(results, "before"), "after": counts(results, "after")}}
    if failed:
        more = f" ({len(failed)} of {len(results)} attachments failed)" if len(results) > 1 else ""
        result |= {"failed": True, "msg": f"{failed[0].error}{more}", "error": type(failed[0].error).__name__}
    return result


def _row(one: AttachmentResult) -> dict[str, t.Any]:
    row: dict[str, t.Any] = {
        "machine": one.machine.uid if one.machine else one.spec.machine, "model": one.model,
        "changed": one.changed, "failed": one.error is not None, "count": one.after,
        "devices": [device_row(d) for d in one.devices], "handles": list(one.handles), "seconds": one.seconds}
    if one.machine:
        row["name"] = one.machine.name
    if one.error:
        row |= {"msg": str(one.error), "error": type(one.error).__name__}
    return row
