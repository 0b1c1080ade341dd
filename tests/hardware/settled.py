# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For each line of docs/contributors/simulation.md that hardware can settle: whether this run has settled it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

TABLE = Path(__file__).with_name("limits.yml")
PASSED, NOT_RUN = "passed", "it was not run"


@dataclass(frozen=True)
class Limit:
    """A row of limits.yml, which says what the fields mean."""

    line: str
    tests: tuple[str, ...] = ()
    open: str = ""


def limits() -> list[Limit]:
    """Return the rows of limits.yml."""
    rows = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return [Limit(row["line"], tuple(row.get("tests", ())), row.get("open", "")) for row in rows]


@dataclass
class Results:
    """A plugin of pytest that keeps what became of each test: PASSED, or a sentence."""

    of: dict[str, str] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for set-up, test and end of each test."""
        test = report.nodeid.rpartition("/")[2]
        if report.failed:
            self.of[test] = "it failed"
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.of[test] = reason.removeprefix("Skipped: ")
        elif report.when == "call":
            self.of.setdefault(test, PASSED)


def lines(results: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines for people: each limit, whether it is settled here, and what stays open."""
    yield "Lines of docs/contributors/simulation.md on this node:"
    for limit in limits():
        lacking = {test: results.get(test, NOT_RUN) for test in limit.tests if results.get(test) != PASSED}
        settled = limit.tests and not lacking
        yield f"  {'settled    ' if settled else 'not settled'}  {limit.line}"
        for test, why in lacking.items():
            yield f"{'':15}{test}: {why}"
        if limit.open:
            yield f"{'':15}{'still open: ' if limit.tests else 'not by this suite: '}{limit.open}"
