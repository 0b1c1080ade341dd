# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report of a conformance run as Markdown for people and as JUnit XML for CI systems."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape, quoteattr

from .checks import FAILED, PASSED, SKIPPED, UNSUPPORTED, Result

SIGNS: t.Final = {PASSED: "✔", FAILED: "✘", UNSUPPORTED: "–", SKIPPED: "·"}
_LEGEND: t.Final = "✔ passed, ✘ failed, – not offered by this manager, · not tried."


def markdown(manager: str, endpoint: str, results: Sequence[Result]) -> str:
    """Return the report on one manager as Markdown."""
    lines = [
        f"# Conformance of {manager} at {endpoint}", "", summary(results), "",
        "| | Check | How, or why not | Seconds |", "|---|---|---|---:|",
        *(f"| {SIGNS[r.outcome]} | {r.check.title} | {cell(r.words)} | {r.seconds:.2f} |" for r in results),
        "", _LEGEND, "", "## What the checks mean", "",
        *(f"- **{r.check.title}**: {r.check.means}" for r in results), "",
    ]
    return "\n".join(lines)


def summary(results: Iterable[Result]) -> str:
    """Return the number of checks for each outcome."""
    found = [result.outcome for result in results]
    return ", ".join(f"{found.count(outcome)} {outcome}" for outcome in SIGNS)


def cell(text: str) -> str:
    """Escape a text for one cell of a Markdown table."""
    return " ".join(text.replace("|", "\\|").split())


def junit(manager: str, results: Sequence[Result]) -> str:
    """Return JUnit XML with one suite, and one case for each check."""
    outcomes = [r.outcome for r in results]
    head = (
        f'<testsuite name={quoteattr(f"conformance.{manager}")} tests="{len(results)}" '
        f'failures="{outcomes.count(FAILED)}" errors="0" '
        f'skipped="{outcomes.count(SKIPPED) + outcomes.count(UNSUPPORTED)}" '
        f'time="{sum(r.seconds for r in results):.3f}">'
    )
    cases = "\n".join(_case(manager, result) for result in results)
    return f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites>\n{head}\n{cases}\n</testsuite>\n</testsuites>\n'


def _case(manager: str, result: Result) -> str:
    name, group = quoteattr(result.check.title), quoteattr(f"conformance.{manager}")
    begin = f'<testcase name={name} classname={group} time="{result.seconds:.3f}"'
    if result.outcome == PASSED:
        return f"{begin}><system-out>{escape(result.words)}</system-out></testcase>" if result.words else f"{begin}/>"
    tag = "failure" if result.outcome == FAILED else "skipped"
    words = result.words if result.outcome != UNSUPPORTED else f"not offered: {result.words}"
    return f"{begin}><{tag} message={quoteattr(words)}/></testcase>"
