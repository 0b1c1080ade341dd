# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe a run in one sentence: which devices moved for which claims, which claims wait, and who
led."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

SHOWN: t.Final = 5


def done(history: Iterable[Mapping[str, t.Any]], waiting: Sequence[str], led_by: Sequence[str]) -> str:
    """Return the summary of a run that could change something.

    ``history``: entries of the run. ``waiting``: claims that still wait. ``led_by``: who held the Leases instead.
    """
    entries = list(history)
    moved = [f"{reason}: {devices}" for reason, way in (("Attached", "to"), ("Detached", "from"))
             if (devices := _devices(entries, reason, way))]
    if led_by:
        return _sentences(*(moved or ["This run changed nothing"]), _waits(waiting), f"Led by {_all(led_by)}")
    return _sentences(*(moved or ["Attached nothing"]), _waits(waiting), "Led by this run")


def planned(actions: Iterable[Mapping[str, t.Any]], waiting: Sequence[str], led_by: Sequence[str]) -> str:
    """Return the summary of a run in check mode.

    ``actions``: the plan. ``waiting``: claims that wait now. ``led_by``: who holds the Leases now.
    """
    todo = list(actions)
    sizes = [f"{each['model']} on {each['node']} from {each.get('before') or 0} to {each['size']}"
             for each in todo if each["action"] == "SetSize"]
    said = "Would change " + _some(sizes) if sizes else f"Would do {len(todo)} actions" if todo else "Would do nothing"
    return _sentences(said, _waits(waiting), f"Led by {_all(led_by)}" if led_by else "No process leads")


def _sentences(*texts: str) -> str:
    return ". ".join(texts) + "."


def _devices(entries: Iterable[Mapping[str, t.Any]], reason: str, way: str) -> str:
    counts = Counter((each["model"], each["node"], tuple(each.get("claims", ())))
                     for each in entries if each.get("reason") == reason and "node" in each)
    return _some([f"{f'{count} x ' if count > 1 else ''}{model} {way} {node}"
                  + (f" for {_all(claims)}" if claims and way == "to" else "")
                  for (model, node, claims), count in counts.items()])


def _waits(claims: Sequence[str]) -> str:
    if not claims:
        return "No claim waits"
    return f"Waiting: {_some(claims)}"


def _some(words: Sequence[str]) -> str:
    return ", ".join(words[:SHOWN]) + (f" and {len(words) - SHOWN} more" if len(words) > SHOWN else "")


def _all(words: Sequence[str]) -> str:
    return " and ".join(words)
