# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of recorded runs in docs/contributors/reliability.md.

``python -m …tests.chaos.on_lab.page`` writes the table again, and a test fails if it is outdated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.composable.infra.tests.chaos.invariants import DOUBLE, HELD, LEAK, LOST, THEFT, kinds
from ansible_collections.composable.infra.tests.chaos.on_lab import record
from ansible_collections.composable.infra.tests.chaos.on_lab.run import LabOutcome

PAGE = Path(__file__).parents[3] / "docs" / "contributors" / "reliability.md"
BEGIN, END = "<!-- lab -->\n", "<!-- /lab -->"
WORDS = {DOUBLE: "double attachments", LEAK: "leaks", LOST: "lost claims", THEFT: "thefts",
         HELD: "pods held longer than the bound"}
NOTHING = "No runs are recorded yet.\n"


def table(found: Sequence[LabOutcome]) -> str:
    """Return the table: sums, in how many runs each promise was broken, and the seeds."""
    if not found:
        return NOTHING
    sums, broken = record.sums(found), Counter(kind for it in found for kind in kinds(it.violations))
    rows = [("runs", sums.runs), ("passed", sums.runs - sums.failed), ("devices attached", sums.attaches),
            ("hours", f"{sums.hours:.1f}"), *((f"runs with {words}", broken[kind])
                                              for kind, words in WORDS.items()),
            ("runs with other problems", sum(bool(kinds(it.violations) - WORDS.keys()) for it in found)),
            ("seeds", ranges(sorted(it.seed for it in found))),
            ("seeds that failed", ranges(sorted(it.seed for it in found if it.violations)) or "none")]
    return "".join(["| Recorded on the lab | |\n|---|---|\n", *(f"| {what} | {value} |\n" for what, value in rows)])


def ranges(seeds: Sequence[int]) -> str:
    """Return sorted numbers as text, consecutive ones as a range."""
    found: list[list[int]] = []
    for seed in seeds:
        if found and seed == found[-1][1] + 1:
            found[-1][1] = seed
        else:
            found.append([seed, seed])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in found)


def page(text: str, found: Sequence[LabOutcome]) -> str:
    """Return the page with this table between its markers. Raise ValueError for a page without
    them.
    """
    before, begin, rest = text.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no {BEGIN.strip()} … {END}")
    return f"{before}{begin}{table(found)}{end}{after}"


def update() -> None:
    """Write the page again from the recorded runs."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), record.read()), encoding="utf-8")


if __name__ == "__main__":
    update()
