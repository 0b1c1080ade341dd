# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The invariants of runs on the lab, judged by the emulator's log of effects and by the API
server's history.

The controllers are not asked. If two clocks or a watch leave a moment uncertain, it is judged in
favor of the controllers, within ``MARGIN`` seconds. Facts inside one process, such as which process
believes that it leads, are judged only in simulated runs.
"""

from __future__ import annotations

import json
import typing as t
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.tests.chaos.invariants import DOUBLE, HELD, THEFT
from ansible_collections.composable.infra.tests.chaos.on_lab.history import History, Use

Json = dict[str, t.Any]
Requests: t.TypeAlias = "Counter[tuple[str, str]]"
MARGIN = 2.0


@dataclass
class Users:
    """Actions of users and administrators.

    ``deleted``: when the deletion of a pod was requested. ``placed``: when a device was attached by
    hand.
    """

    deleted: dict[str, float] = field(default_factory=dict)
    placed: dict[str, float] = field(default_factory=dict)
    ambiguous: set[str] = field(default_factory=set)


def created_requests(audit_log: Path, since: int) -> Requests:
    """Return the number of created ComposableResources by (machine, model), in an audit log from a
    position on.
    """
    found: Requests = Counter()
    with audit_log.open("rb") as file:
        file.seek(since)
        for line in file:
            if b'"composableresources"' in line and b'"create"' in line and line.endswith(b"\n"):
                entry = json.loads(line)
                if (entry["stage"], entry["verb"]) == ("ResponseComplete", "create") and entry["responseStatus"][
                        "code"] == HTTPStatus.CREATED:
                    spec = entry["requestObject"]["spec"]
                    found[machine_uuid(spec["target_node"]), spec["model"]] += 1
    return found


def held_too_long(held: Iterable[tuple[str, float]], disturbed: float, now: float, bound: float) -> list[str]:
    """Return a sentence for each pod that is gated longer than ``bound`` seconds.

    The time is counted from the last moment without a working leader.
    """
    return [f"{HELD}: pod {name} is held for more than {bound:g} s" for name, since in held
            if now - max(since, disturbed) > bound]


def judge(effects: Sequence[Json], serials: Mapping[str, str], history: History, created: Requests,
          users: Users) -> list[str]:
    """Return the violations as sentences, each beginning with its kind.

    ``serials``: UUID by UID at the CDI Manager. ``created``: requests in the audit log
    (``created_requests``).
    """
    found = [f"{DOUBLE}: {said}" for said in history.double]
    for effect in effects:
        uid = effect["device"]
        if _left(effect):
            found += _stolen(effect, serials[uid], history.uses, users)
    found += _more_than_asked(effects, history, created, users)
    found += [f"{DOUBLE}: {seen.name} had {' and '.join(seen.devices)}" for seen in history.resources.values()
              if len(set(seen.devices)) > 1]
    placed = {uid: since for uid, since in users.placed.items() if uid not in users.ambiguous}
    found += [f"{THEFT}: {seen.name} adopted an administrator's device {uid}" for seen in history.resources.values()
              for uid in seen.devices if placed.get(uid, float("inf")) <= seen.owned_since]
    return found


def _left(effect: Json) -> bool:
    return str(effect["effect"]).startswith("detached")


def _stolen(effect: Json, uuid: str, uses: Iterable[Use], users: Users) -> list[str]:
    """Return thefts: a device left while a claim had it, and the deletion of its pod was not
    requested.
    """
    at, uid = float(effect["time"]), str(effect["device"])
    found = [f"{THEFT}: {uid} was detached, claim {use.claim} has it" for use in uses
             if use.uuid == uuid and use.since < at < min(users.deleted.get(use.claim, float("inf")),
                                                          use.until - MARGIN)]
    if users.placed.get(uid, float("inf")) < at and uid not in users.ambiguous:
        found.append(f"{THEFT}: an administrator's device {uid} was detached")
    return found


def _more_than_asked(effects: Iterable[Json], history: History, created: Requests, users: Users) -> list[str]:
    """Check that each device that came was requested by a ComposableResource or an administrator.

    A watch may miss a short life, and the audit log a request during which the API server was
    killed. The larger number of the two counts.
    """
    attached = [e for e in effects if str(e["effect"]).startswith("attached")]
    came = Counter((e["machine"], e["model"]) for e in attached)
    asked = Counter((seen.machine, seen.model) for seen in history.resources.values() if seen.asked) | created
    asked.update(where for uid, since in users.placed.items() if (where := _placed(uid, since, attached)))
    return [f"{DOUBLE}: {count} devices came to {machine} for {asked[machine, model]} requests of {model}"
            for (machine, model), count in came.items() if count > asked[machine, model]]


def _placed(uid: str, since: float, attached: Iterable[Json]) -> tuple[str, str] | None:
    """Return the machine to which an administrator attached a device, and its model.

    The device may have moved to another machine since.
    """
    return next(((e["machine"], e["model"]) for e in attached if e["device"] == uid and e["time"] >= since), None)
