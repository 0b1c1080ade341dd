# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One wanted attachment and what became of it; what is wrong about wishes before anybody is asked."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from .errors import BadConfiguration, FabricError
from .listing import device_row
from .types import Device, Machine


@dataclass(frozen=True, slots=True)
class Wish:
    """``count`` devices of ``model`` on a machine, or ``device`` away from it, or the end of operation ``handle``.

    ``machine`` is a uid or a name, ``where`` what errors put before the name of an option.
    """

    machine: str
    state: str = "attached"
    model: str | None = None
    count: int = 1
    kind: str = "gpu"
    device: str | None = None
    handle: str | None = None
    where: str = ""


@dataclass(frozen=True, slots=True)
class Granted:
    """What became of a wish; ``before`` and ``after`` count the devices of ``model`` on the machine.

    ``handles``: operations that the manager still works on; ``seconds``: how long it took.
    """

    wish: Wish
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
        """Whether the machine has more or fewer devices than before, or will have."""
        return self.before != self.after


def refuse_incomplete(wish: Wish) -> None:
    """Raise BadConfiguration for a wish that lacks what its state needs."""
    if wish.state == "detached" and not wish.device:
        raise BadConfiguration(f"{wish.where}device", wish.device, "state detached needs the uid of a device")
    if wish.state == "attached" and not (wish.model or wish.handle):
        raise BadConfiguration(f"{wish.where}model", wish.model, "state attached needs a model, or a handle")
    if wish.state == "attached" and wish.device:
        raise BadConfiguration(f"{wish.where}device", wish.device, "only state detached takes it: which device is "
                                                                   "attached is chosen by the CDI Manager")
    if wish.count < 1:
        raise BadConfiguration(f"{wish.where}count", wish.count, "it must be 1 or more")


def refuse_doubles(planned: Iterable[Granted]) -> None:
    """Two wishes about one thing: whichever came second would decide, so neither is served."""
    asked = Counter((one.machine.uid, one.wish.device or one.wish.handle or one.model or "")
                    for one in planned if one.machine)
    for (machine, what), times in asked.items():
        if times > 1:
            raise BadConfiguration("attachments", f"{what} on machine {machine}", f"name it once, not {times} times")


def place(one: Granted) -> tuple[str, str]:
    """Machine and model that a wish is about."""
    return one.machine.uid if one.machine else "", one.model or ""


def arrives(one: Granted) -> bool:
    """Whether a wish is for devices that are still to be asked for."""
    return one.error is None and one.wish.state == "attached" and not one.wish.handle


def after_leaving(one: Granted, leaving: int) -> Granted:
    """A wish for devices, seen from when those of its model that leave the machine have left it."""
    have = one.before - leaving
    return replace(one, before=have, after=max(have, one.wish.count))


def counts(granted: Iterable[Granted], attribute: t.Literal["before", "after"]) -> Mapping[str, Mapping[str, int]]:
    """Devices per machine name and model, before or after: one side of a diff."""
    before: dict[tuple[str, str], int] = {}
    moved: Counter[tuple[str, str]] = Counter()
    for one in granted:
        if one.machine and one.model:
            key = one.machine.name, one.model
            before[key] = max(before.get(key, 0), one.before)
            moved[key] += one.after - one.before
    found: dict[str, dict[str, int]] = {}
    for (machine, model), have in sorted(before.items()):
        found.setdefault(machine, {})[model] = have + (moved[machine, model] if attribute == "after" else 0)
    return found


def as_result(granted: Sequence[Granted]) -> dict[str, t.Any]:
    """What a module returns: a row for each wish, and a failure when one of them failed."""
    results = [_row(one) for one in granted]
    failed = [one for one in granted if one.error]
    result: dict[str, t.Any] = {
        "changed": any(one.changed for one in granted), "results": results,
        "devices": [row for one in results for row in one["devices"]],
        "diff": {"before": counts(granted, "before"), "after": counts(granted, "after")}}
    if failed:
        more = f" ({len(failed)} of {len(granted)} attachments failed)" if len(granted) > 1 else ""
        result |= {"failed": True, "msg": f"{failed[0].error}{more}", "error": type(failed[0].error).__name__}
    return result


def _row(one: Granted) -> dict[str, t.Any]:
    row: dict[str, t.Any] = {
        "machine": one.machine.uid if one.machine else one.wish.machine, "model": one.model,
        "changed": one.changed, "failed": one.error is not None, "count": one.after,
        "devices": [device_row(d) for d in one.devices], "handles": list(one.handles), "seconds": one.seconds}
    if one.machine:
        row["name"] = one.machine.name
    if one.error:
        row |= {"msg": str(one.error), "error": type(one.error).__name__}
    return row
