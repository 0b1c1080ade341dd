# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer who used which GPU, and what it costs."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ansible_collections.composable.infra.controller.ui.insight.span import DAY, BadQuery
from ansible_collections.composable.infra.controller.ui.scope import Scope
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.plugins.module_utils.reconcile.accounting.report import (
    BadPeriod,
    Rates,
    Report,
    as_csv,
    fields_of,
    report,
    told,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.accounting.sums import HOUR, Stored

Json = dict[str, t.Any]
JSON, CSV = "json", "csv"
LATEST: t.Final = 253402300800.0
"""The year 10000, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class UsageAnswers:
    """Answers about usage.

    ``known``: returns all sums up to now. ``problem``: returns why they cannot be stored, empty if they
    can. ``label``: the key of the pods' label by which they are divided.
    """

    known: Callable[[], Stored]
    problem: Callable[[], str]
    rates: Rates
    label: str = ""

    def answer(self, scope: Scope, query: Mapping[str, str]) -> tuple[str, Json | str]:
        """Return the kind of the answer, JSON or CSV, and the answer. Raise BadQuery.

        A namespace's reader gets its own rows and the sums of all. A problem may name objects of
        others, so such a reader does not get its text.
        """
        kind = query.get("format") or JSON
        if kind not in (JSON, CSV):
            raise BadQuery(f"format: {kind[:64]!r} is not usable: must be {JSON} or {CSV}")
        stored = self.known()
        end = _moment(query, "to", stored.until)
        begin = _moment(query, "from", end - DAY)
        try:
            by = fields_of(query.get("by") or "")
            found = report(stored, begin, end, by, self.rates, scope.namespace)
        except BadPeriod as error:
            raise BadQuery(str(error)) from None
        return (CSV, as_csv(found.rows)) if kind == CSV else (JSON, self._json(stored, found, by, scope))

    def _json(self, stored: Stored, found: Report, by: tuple[str, ...], scope: Scope) -> Json:
        problem = self.problem()
        return {"from": round(found.begin, 3), "to": round(found.end, 3), "since": round(stored.since, 3),
                "until": round(stored.until, 3), "by": [*by], "label": self.label, "currency": self.rates.currency,
                "uncertain_hours": round(stored.uncertain / HOUR, 6),
                "problem": problem if scope.namespace is None or not problem else "The sums cannot be stored now.",
                "rows": [told(row) for row in found.rows], "totals": [told(row) for row in found.totals]}


def _moment(query: Mapping[str, str], name: str, default: float) -> float:
    text = query.get(name) or ""
    if not text:
        return default
    try:
        moment = float(text)
    except ValueError:
        moment = parse_time(text)
    if not 0.0 < moment < LATEST:
        raise BadQuery(f"{name}: {text[:64]!r} is not usable: must be seconds since 1970, or a time such as "
                       "2026-01-02T03:04:05Z")
    return moment
