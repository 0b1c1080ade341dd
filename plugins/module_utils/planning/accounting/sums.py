# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sums of GPU time by hour or day, namespace, model and label of the pod.

The sums of the last HOURS hours are by hour, those of the last DAYS days by day (UTC). Older sums
are one. A bucket has at most MOST_ROWS rows with names of their own, so the table is bounded.
"""

from __future__ import annotations

import base64
import json
import typing as t
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

NAME: t.Final = "composable-infra-usage"
FIELD: t.Final = "usage"
"""ConfigMap in the controllers' namespace, and its field with the sums."""
HOUR: t.Final = 3600
DAY: t.Final = 24 * HOUR
HOURS: t.Final = 48
DAYS: t.Final = 62
VERSION: t.Final = 1
MOST_ROWS: t.Final = 200
"""Rows of a bucket that have a namespace and a label. Further ones are summed under OTHER."""
OTHER: t.Final = "(other)"
NO_NAMESPACE: t.Final = ""
"""Namespace of the time in which no claim has an attached device."""
RECENT: t.Final = 600.0
MOST_KEYS: t.Final = 4000
"""Attaches that stored sums name: those of so many seconds before, and at most so many."""
EVER: t.Final = 0
"""Length of the bucket of all older sums."""


class Place(t.NamedTuple):
    """Key of a sum. ``begin`` is in seconds since the epoch, ``length`` in seconds."""

    begin: int
    length: int
    namespace: str
    model: str
    label: str


@dataclass(frozen=True, slots=True)
class Sum:
    """Seconds that claims had devices, seconds that devices were idle, and attached devices."""

    used: float = 0.0
    idle: float = 0.0
    attaches: int = 0

    def plus(self, other: Sum) -> Sum:
        """Return the sum of both."""
        return Sum(self.used + other.used, self.idle + other.idle, self.attaches + other.attaches)

    def times(self, factor: int) -> Sum:
        """Return each number times ``factor``."""
        return Sum(self.used * factor, self.idle * factor, self.attaches * factor)


Rows = Mapping[Place, Sum]


def hours(began: float, ended: float) -> Iterator[tuple[int, float]]:
    """Yield the hours from ``began`` to ``ended``, each with the seconds in it.

    All times are in seconds since the epoch.
    """
    while began < ended:
        hour = int(began // HOUR) * HOUR
        until = min(ended, hour + HOUR)
        yield hour, until - began
        began = until


def together(tables: Iterable[Rows], now: float) -> dict[Place, Sum]:
    """Return the sum of all tables, with old hours as days and old days as one bucket."""
    found: dict[Place, Sum] = {}
    names: dict[tuple[int, int], int] = {}
    for place, row in (each for table in tables for each in table.items()):
        key = _bounded(_folded(place, now), found, names)
        found[key] = found[key].plus(row) if key in found else row
    return found


def _folded(place: Place, now: float) -> Place:
    if place.length == HOUR and place.begin < now - HOURS * HOUR:
        place = place._replace(begin=place.begin // DAY * DAY, length=DAY)
    if place.length == DAY and place.begin < now - DAYS * DAY:
        place = place._replace(begin=0, length=EVER)
    return place


def _bounded(place: Place, found: Rows, names: dict[tuple[int, int], int]) -> Place:
    bucket = (place.begin, place.length)
    if place in found or place.namespace in (NO_NAMESPACE, OTHER):
        return place
    if names.get(bucket, 0) >= MOST_ROWS:
        return place._replace(namespace=OTHER, label="")
    names[bucket] = names.get(bucket, 0) + 1
    return place


@dataclass(frozen=True, slots=True)
class Counted:
    """The attaches that a stored table has: those up to ``since``, and those in ``keys``.

    Two processes know the moment of an attach only roughly, so recent attaches are named. ``keys`` has
    their moments. All times are in seconds since the epoch.
    """

    since: float = 0.0
    keys: Mapping[str, float] = field(default_factory=dict)

    def plus(self, attaches: Mapping[str, float], now: float) -> Counted:
        """Return it with these attaches, the moment by key.

        The keys are those of the last RECENT seconds, and at most MOST_KEYS.
        """
        recent = sorted(((when, key) for key, when in {**self.keys, **attaches}.items() if when > now - RECENT),
                        reverse=True)
        since = recent[MOST_KEYS][0] if len(recent) > MOST_KEYS else now - RECENT
        return Counted(max(self.since, since), {key: round(when, 1) for when, key in recent[:MOST_KEYS]})

    def has(self, key: str, moment: float) -> bool:
        """Return whether the attach of this key is in the table. ``moment``: at or before the attach."""
        return moment <= self.since or key in self.keys


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored table.

    It counts all time from ``since`` up to ``until``, in seconds since the epoch, or 0.0 if nothing was
    counted yet. ``writer`` is the process that wrote it. ``claims`` is the resourceVersion of the
    claims at that time. ``uncertain``: seconds that claims may have had devices longer, because no
    process saw the end. ``counted``: the attaches in it.
    """

    table: Rows = field(default_factory=dict)
    since: float = 0.0
    until: float = 0.0
    writer: str = ""
    claims: str = ""
    uncertain: float = 0.0
    counted: Counted = field(default_factory=Counted)

    def text(self) -> str:
        """Return the table as compressed JSON in base64."""
        rows = [[*place, round(row.used, 3), round(row.idle, 3), row.attaches]
                for place, row in sorted(self.table.items())]
        told = {"version": VERSION, "since": self.since, "until": self.until, "writer": self.writer,
                "claims": self.claims, "uncertain": round(self.uncertain, 3), "rows": rows,
                "counted": {"since": self.counted.since, "keys": dict(self.counted.keys)}}
        return base64.b64encode(zlib.compress(json.dumps(told, separators=(",", ":")).encode(), 6)).decode()


class OtherVersion(ValueError):
    """The sums are of another release."""


def of_text(text: str) -> Stored:
    """Return the table in a text, or an empty one for an empty text.

    Raise OtherVersion, or ValueError for a text that ``Stored.text`` did not write.
    """
    if not text:
        return Stored()
    try:
        told = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
        if told["version"] != VERSION:
            raise OtherVersion(f"version {told['version']!r}")
        table = {Place(int(row[0]), int(row[1]), str(row[2]), str(row[3]), str(row[4])):
                 Sum(float(row[5]), float(row[6]), int(row[7])) for row in told["rows"]}
        until = float(told["until"])
        counted = told.get("counted") or {"since": until, "keys": {}}  # an earlier release did not name any
        keys = {str(key): float(when) for key, when in counted["keys"].items()}
        return Stored(table, float(told["since"]), until, str(told["writer"]), str(told["claims"]),
                      float(told["uncertain"]), Counted(float(counted["since"]), keys))
    except OtherVersion:
        raise
    except (AttributeError, KeyError, TypeError, IndexError, ValueError, zlib.error) as error:
        raise ValueError(f"it has no sums of usage: {type(error).__name__}: {error}") from None
