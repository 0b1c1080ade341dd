# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer who used which GPU, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ansible_collections.composable.infra.controller.ui.insight.span import BadQuery
from ansible_collections.composable.infra.controller.ui.scope import Scope
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.report import (
    BadPeriod,
    Rates,
    as_csv,
    of_period,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.sums import Stored

JSON, CSV = "json", "csv"


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
            raise BadQuery(f"format: {kind[:64]!r} is not allowed. It must be {JSON} or {CSV}")
        try:
            found = of_period(self.known(), query.get("from") or "", query.get("to") or "", query.get("by") or "",
                              self.rates, scope.namespace)
        except BadPeriod as error:
            raise BadQuery(str(error)) from None
        if kind == CSV:
            return CSV, as_csv(found["rows"])
        problem = self.problem()
        told = problem if scope.namespace is None or not problem else "The controllers cannot store the usage now."
        return JSON, {**found, "label": self.label, "problem": told}
