# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold on the lab, judged by the emulator's log of effects, and by what the API server showed.

The controllers are not asked. A moment that two clocks or a watch could tell in two ways is judged in their favour:
``MARGIN`` seconds. What only one process knows, such as who believes to lead, is judged in the simulated runs alone.
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
    """What users and administrators did by themselves: when a pod's deletion was asked for, and which devices were
    attached by hand, with the moment."""

    deleted: dict[str, float] = field(default_factory=dict)
    placed: dict[str, float] = field(default_factory=dict)
    ambiguous: set[str] = field(default_factory=set)


def created_requests(audit_log: Path, since: int) -> Requests:
    """ComposableResources created by (machine, model), in an audit log from a position on."""
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
    """Pods that the gate holds for longer than the bound, counted from when a leader was last at work again."""
    return [f"{HELD}: pod {name} is held for more than {bound:g} s" for name, since in held
            if now - max(since, disturbed) > bound]


def judge(effects: Sequence[Json], serials: Mapping[str, str], history: History, created: Requests,
          users: Users) -> list[str]:
    """Sentences, each beginning with its kind.

    ``serials``: UUID by the manager's uid of a device; ``created``: what the audit log has (``created_requests``).
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
    """A device left although a claim had it before and after, and nobody had asked to delete its pod."""
    at, uid = float(effect["time"]), str(effect["device"])
    found = [f"{THEFT}: {uid} was detached, claim {use.claim} has it" for use in uses
             if use.uuid == uuid and use.since < at < min(users.deleted.get(use.claim, float("inf")),
                                                          use.until - MARGIN)]
    if users.placed.get(uid, float("inf")) < at and uid not in users.ambiguous:
        found.append(f"{THEFT}: an administrator's device {uid} was detached")
    return found


def _more_than_asked(effects: Iterable[Json], history: History, created: Requests, users: Users) -> list[str]:
    """Each device that came has a ComposableResource that asked, or an administrator who did.

    A watch may miss a short life, and the audit log a request during which the API server was killed: the one that has
    more of them is right.
    """
    attached = [e for e in effects if str(e["effect"]).startswith("attached")]
    came = Counter((e["machine"], e["model"]) for e in attached)
    asked = Counter((seen.machine, seen.model) for seen in history.resources.values() if seen.asked) | created
    asked.update(where for uid, since in users.placed.items() if (where := _placed(uid, since, attached)))
    return [f"{DOUBLE}: {count} devices came to {machine} for {asked[machine, model]} requests of {model}"
            for (machine, model), count in came.items() if count > asked[machine, model]]


def _placed(uid: str, since: float, attached: Iterable[Json]) -> tuple[str, str] | None:
    """The machine that an administrator attached a device to, and its model: it may have left since, and have come to
    another."""
    return next(((e["machine"], e["model"]) for e in attached if e["device"] == uid and e["time"] >= since), None)
