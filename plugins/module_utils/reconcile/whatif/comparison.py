# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare two answers, as the result of a module and as a table for people."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

from .answer import RELEASED, STATES, WAITING, Answer, ClaimAnswer, Moves

MOST_ROWS: t.Final = 40
_NOTHING: t.Final = ClaimAnswer("", "", "", "")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answers before and after changes of a capture."""

    before: Answer
    after: Answer

    def as_result(self) -> dict[str, t.Any]:
        """Return the comparison as data, with the table."""
        return {"before": _data(self.before), "after": _data(self.after), "differs": self.differs(),
                "table": self.table()}

    def differs(self) -> list[str]:
        """Return the claims with another state or another node after the changes, and new or
        missing claims."""
        names = sorted(self.before.claims.keys() | self.after.claims.keys())
        return [name for name in names if _place(self.before, name) != _place(self.after, name)]

    def table(self) -> list[str]:
        """Return the lines of a table: sums, then each claim that differs or waits. The longest
        texts come last."""
        return [*aligned(self.sums()), "", *aligned(self.rows())] if self._shown() else aligned(self.sums())

    def sums(self) -> Iterator[list[str]]:
        """Yield the rows of a table with a header: claims by state, devices to attach, to return,
        and free."""
        before, after = self.before.counts(), self.after.counts()
        yield ["", "BEFORE", "AFTER"]
        for state in STATES:
            yield [f"claims {state}", str(before[state]), str(after[state])]
        for what, name in (("to attach", "attaches"), ("to return", "returns")):
            yield from self._moves(what, getattr(self.before, name), getattr(self.after, name))
        for model, fabric in sorted(self.before.free.keys() | self.after.free.keys()):
            counts = [str(each.free.get((model, fabric), 0)) for each in (self.before, self.after)]
            yield [f"{model} free on fabric {fabric}", *counts]

    @staticmethod
    def _moves(what: str, before: Moves, after: Moves) -> Iterator[list[str]]:
        sums = [_by_model(before), _by_model(after)]
        for model in sorted(sums[0].keys() | sums[1].keys()):
            yield [f"{model} {what}", *(str(each.get(model, 0)) for each in sums)]

    def _shown(self) -> list[str]:
        waits = {name for name, each in self.after.claims.items() if each.state in (WAITING, RELEASED)}
        return sorted({*self.differs(), *waits})

    def rows(self) -> Iterator[list[str]]:
        """Yield the rows of a table with a header: the claims that differ or wait, at most
        MOST_ROWS."""
        names = self._shown()
        yield ["CLAIM", "BEFORE", "AFTER", "WHY"]
        for name in names[:MOST_ROWS]:
            after = self.after.claims.get(name, _NOTHING)
            yield [name, _short(self.before.claims.get(name)), _short(self.after.claims.get(name)), after.says or "-"]
        if len(names) > MOST_ROWS:
            yield [f"and {len(names) - MOST_ROWS} more", "", "", ""]


def _place(answer: Answer, name: str) -> tuple[str, str]:
    found = answer.claims.get(name, _NOTHING)
    return found.state, found.node


def _short(found: ClaimAnswer | None) -> str:
    if found is None:
        return "-"
    return f"{found.state} on {found.node}" if found.node else found.state


def _by_model(moves: Moves) -> dict[str, int]:
    found: dict[str, int] = {}
    for (_node, model), n in moves.items():
        found[model] = found.get(model, 0) + n
    return found


def aligned(rows: Iterable[list[str]]) -> list[str]:
    """Return the rows as lines with two spaces between columns, without trailing spaces."""
    listed = list(rows)
    widths = [max(len(row[column]) for row in listed) for column in range(len(listed[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in listed]


def _data(answer: Answer) -> dict[str, t.Any]:
    return {"claims": [asdict(each) for each in answer.claims.values()], "counts": answer.counts(),
            "attaches": _listed(answer.attaches), "returns": _listed(answer.returns),
            "free": [{"model": model, "fabric": fabric, "count": n} for (model, fabric), n in answer.free.items()],
            "problems": list(answer.problems)}


def _listed(moves: Mapping[tuple[str, str], int]) -> list[dict[str, t.Any]]:
    return [{"node": node, "model": model, "count": n} for (node, model), n in moves.items()]
