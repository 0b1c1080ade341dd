# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer the page's questions about history and usage, each for what the client may see."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ansible_collections.composable.infra.controller.ui.insight.history import History
from ansible_collections.composable.infra.controller.ui.insight.usage import CSV, UsageAnswers
from ansible_collections.composable.infra.controller.ui.scope import Scope
from ansible_collections.composable.infra.controller.ui.view import compact

HISTORY, USAGE = "history", "usage"
DEFAULT_SPAN: t.Final = "24h"
CSV_HEADERS: t.Final = {"Content-Type": "text/csv; charset=utf-8",
                        "Content-Disposition": 'attachment; filename="usage.csv"'}


@dataclass(frozen=True, slots=True)
class Told:
    """The text of an answer, with the headers that its kind needs."""

    text: str
    headers: Mapping[str, str]

    @classmethod
    def json(cls, value: object) -> Told:
        """Return a value as JSON."""
        return cls(compact(value), {"Content-Type": "application/json"})


class Insight:
    """Answers by the name in the address below ``/ui/``.

    Each answer takes the scope and the query. It raises BadQuery.
    """

    def __init__(self, history: History, usage: UsageAnswers) -> None:
        self._history, self._usage = history, usage
        self.answers: Mapping[str, Callable[[Scope, Mapping[str, str]], Told]] = {
            HISTORY: self._told_history, USAGE: self._told_usage}

    def _told_history(self, scope: Scope, query: Mapping[str, str]) -> Told:
        return Told.json(self._history.answer(query.get("span") or DEFAULT_SPAN, scope).told())

    def _told_usage(self, scope: Scope, query: Mapping[str, str]) -> Told:
        kind, answer = self._usage.answer(scope, query)
        return Told(str(answer), CSV_HEADERS) if kind == CSV else Told.json(answer)
