# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Annotations of the autoscaler's provider on a ComposabilityRequest: for which pods its node was
chosen, and that idle devices may be returned.

The scaler reads both, and only the scaler sets the size. No tenant may write the object.
"""

from __future__ import annotations

import functools
import json
import typing as t
from collections.abc import Iterable
from dataclasses import dataclass

from ...model.value import Json
from ..times import format_micro_time, parse_time

SCALE_UP: t.Final = "composable.infra/scale-up"
RETURN_IDLE: t.Final = "composable.infra/return-idle"
VERSION: t.Final = 1
"""Version of an entry of SCALE_UP, in its key ``version``. The text is a list. Entries of other
versions stay in it.
"""
_LARGEST: t.Final = 1024


@dataclass(frozen=True, slots=True)
class ScaleUpEntry:
    """Devices of the request's model for which a pod waits on the request's node.

    ``pod``: UID of the pod. ``claim``: identity of the claim, as from ``claims.identity``.
    ``since``, ``until``: epoch seconds. The entry expires at ``until``.
    """

    pod: str
    claim: str
    count: int
    since: float
    until: float


def scale_up_text(entries: Iterable[ScaleUpEntry], before: str = "") -> str | None:
    """Return the text of the annotation, None if there are no entries, so that a patch removes it.

    ``before``: the text that the new one replaces. Its entries of another version stay, and so do
    keys of a newer release in the entries that stay.
    """
    said = _raw(before)
    known = {(each.get("pod"), each.get("claim")): each for each in said if _is_ours(each)}
    found = [{"version": VERSION, "pod": each.pod, "claim": each.claim, "count": each.count,
              "since": format_micro_time(each.since), "until": format_micro_time(each.until)} for each in entries]
    whole = [{**known.get((each["pod"], each["claim"]), {}), **each} for each in found]
    whole += [each for each in said if not _is_ours(each)]
    return json.dumps(whole) if whole else None


def _raw(text: str) -> list[Json]:
    """Return the entries of a text, of any version. Return none if the text is damaged."""
    try:
        found = json.loads(text or "[]")
    except ValueError:
        return []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _is_ours(entry: Json) -> bool:
    return bool(entry.get("version", VERSION) == VERSION)


def read_scale_up(request: Json) -> tuple[ScaleUpEntry, ...]:
    """Return the entries of a raw ComposabilityRequest with this version, none if they cannot be
    read.
    """
    return scale_up_entries(str((request["metadata"].get("annotations") or {}).get(SCALE_UP) or ""))


@functools.lru_cache(512)
def scale_up_entries(text: str) -> tuple[ScaleUpEntry, ...]:
    """Return the entries of the text of the annotation with this version, none if they cannot be read."""
    try:
        return tuple(_entry(each) for each in json.loads(text or "[]") if _is_ours(each))
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()


def _entry(data: Json) -> ScaleUpEntry:
    count = int(data["count"])
    if not 0 < count <= _LARGEST:
        raise ValueError("count")
    return ScaleUpEntry(str(data["pod"]), str(data["claim"]), count, parse_time(data["since"]),
                        parse_time(data["until"]))


def return_idle_text(moment: float) -> str:
    """Return the text of the annotation that allows the return of devices that are idle since
    before ``moment`` (epoch seconds).
    """
    return format_micro_time(moment)


def read_return_idle(request: Json) -> float:
    """Return the moment of that annotation in epoch seconds, 0.0 for none."""
    return parse_time((request["metadata"].get("annotations") or {}).get(RETURN_IDLE))
