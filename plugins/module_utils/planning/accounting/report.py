# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU-hours and what they cost, from the stored sums."""

from __future__ import annotations

import csv
import io
import typing as t
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from ...model.value import Json
from .sums import DAY, EVER, HOUR, OTHER, Place, Rows, Stored, Sum

FIELDS: t.Final = ("namespace", "model", "label")
LATEST: t.Final = 253402300800.0
"""The year 10000, in seconds since the epoch."""
COLUMNS: t.Final = (*FIELDS, "gpu_hours", "idle_gpu_hours", "cost", "currency", "attaches")


class BadPeriod(ValueError):
    """A period or a field is not usable. The message names it, its value and what is allowed."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Price of an hour by model, in ``currency``."""

    by_model: Mapping[str, float]
    currency: str = ""

    def cost(self, model: str, row: Sum) -> float | None:
        """Return what used and idle time of a model cost, None if the model has no rate."""
        rate = self.by_model.get(model)
        return None if rate is None else rate * (row.used + row.idle) / HOUR


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A row of a report. Fields by which it is not divided are empty.

    ``namespace`` is empty for time in which no claim had the device, and for attaches for no claim.
    ``cost`` is None if a model of the row has no rate.
    """

    namespace: str
    model: str
    label: str
    gpu_hours: float
    idle_gpu_hours: float
    cost: float | None
    currency: str
    attaches: int


@dataclass(frozen=True, slots=True)
class Report:
    """Usage in the time that it covers, from ``begin`` to ``end``, in seconds since the epoch.

    ``totals`` are the sums of all namespaces by model.
    """

    begin: float
    end: float
    rows: tuple[UsageRow, ...]
    totals: tuple[UsageRow, ...]


def fields_of(text: str) -> tuple[str, ...]:
    """Return the fields in a text with commas, all for an empty text. Raise BadPeriod."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(","))) if text else FIELDS
    if unknown := [name for name in names if name not in FIELDS]:
        raise BadPeriod(f"by: {unknown[0][:64]!r} is not usable: must be one or more of {', '.join(FIELDS)}")
    return names


def moment(name: str, text: str, default: float) -> float:
    """Return the seconds since the epoch in a text, or ``default`` for an empty text.

    The text is a number, or a time or a date of RFC 3339. Raise BadPeriod. ``name``: for the message.
    """
    if not text:
        return default
    try:
        found = float(text)
    except ValueError:
        found = _time(text)
    if not 0.0 < found < LATEST:
        raise BadPeriod(f"{name}: {text[:64]!r} is not usable: must be a number of seconds since 1970, or a "
                        "time such as 2026-01-02T03:04:05Z")
    return found


def _time(text: str) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def report(stored: Stored, begin: float, end: float, by: Collection[str], rates: Rates,
           namespace: str | None = None) -> Report:
    """Return the usage from ``begin`` to ``end``, in seconds since the epoch, rounded outward to stored
    hours and days.

    ``by``: fields that divide the rows. ``namespace``: the only namespace with rows in it, None for
    all.
    Raise BadPeriod if the period is empty.
    """
    if not begin < end:
        raise BadPeriod(f"from: {begin:.0f} is not usable: must be earlier than to, which is {end:.0f}")
    inside = {place: row for place, row in stored.table.items() if place.begin < end and _end(place) > begin}
    first = min((place.begin for place in inside), default=begin)
    last = max((_end(place) for place in inside), default=end)
    own = inside if namespace is None else {p: row for p, row in inside.items() if p.namespace == namespace != OTHER}
    begin, end = min(begin, first), max(end, last)
    return Report(max(begin, min(stored.since or begin, end)), min(end, max(stored.until, begin)),
                  _rows(own, by, rates), _rows(inside, ("model",), rates))


def _end(place: Place) -> float:
    return float(place.begin + place.length) if place.length != EVER else 0.0


def _rows(table: Rows, by: Collection[str], rates: Rates) -> tuple[UsageRow, ...]:
    sums: dict[tuple[str, str, str], Sum] = {}
    costs: dict[tuple[str, str, str], float | None] = {}
    for place, row in table.items():
        key = (place.namespace if "namespace" in by else "", place.model if "model" in by else "",
               place.label if "label" in by else "")
        cost, before = rates.cost(place.model, row), costs.get(key, 0.0)
        sums[key] = sums[key].plus(row) if key in sums else row
        costs[key] = None if cost is None or before is None else before + cost
    rows = (UsageRow(*key, _hours(row.used), _hours(row.idle), _rounded(costs[key]), rates.currency, row.attaches)
            for key, row in sorted(sums.items()))
    return tuple(row for row in rows if row.gpu_hours or row.idle_gpu_hours or row.attaches)


def _hours(seconds: float) -> float:
    return round(max(0.0, seconds) / HOUR, 6)


def _rounded(cost: float | None) -> float | None:
    return None if cost is None else round(max(0.0, cost), 6)


def of_period(stored: Stored, begin: str, end: str, by: str, rates: Rates, namespace: str | None = None) -> Json:
    """Return the usage in a period as the page and the module tell it.

    ``begin``, ``end``: as for ``moment``, by default the day before all that is counted. ``by``: as for
    ``fields_of``. ``namespace``: as for ``report``. Raise BadPeriod.
    """
    fields, last = fields_of(by), moment("to", end, stored.until)
    found = report(stored, moment("from", begin, max(1.0, last - DAY)), last, fields, rates, namespace) \
        if last else Report(0.0, 0.0, (), ())
    return {"from": round(found.begin, 3), "to": round(found.end, 3), "since": round(stored.since, 3),
            "until": round(stored.until, 3), "by": [*fields], "currency": rates.currency,
            "uncertain_hours": _hours(stored.uncertain), "rows": [*map(told, found.rows)],
            "totals": [*map(told, found.totals)]}


def told(row: UsageRow) -> Json:
    """Return a row as JSON."""
    return asdict(row)


def as_csv(rows: Sequence[Json]) -> str:
    """Return the rows as CSV (RFC 4180) with a header. A cost that is not known is empty."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for values in rows:
        writer.writerow(["" if values[name] is None else values[name] for name in COLUMNS])
    return text.getvalue()
