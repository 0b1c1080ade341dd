# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of checks with a level, the observation and the change. Reports have only these."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

STOP, WARN, OK = "stop", "warn", "ok"
_ORDER = {STOP: 0, WARN: 1, OK: 2}
_WORDS = {STOP: "STOP", WARN: "warn", OK: "ok  "}


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `change` is a sentence in the imperative, or empty for `ok`."""

    check: str
    level: str
    found: str
    change: str = ""


def stop(check: str, found: str, change: str) -> Finding:
    """Return a finding that prevents the stack from working."""
    return Finding(check, STOP, found, change)


def warn(check: str, found: str, change: str) -> Finding:
    """Return a finding that has a cost."""
    return Finding(check, WARN, found, change)


def ok(check: str, found: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(check, OK, found)


@dataclass(frozen=True, slots=True)
class Case:
    """The input of checks: the cluster as read, the plan of the roles, and the version matrix."""

    cluster: Mapping[str, t.Any]
    plan: Mapping[str, t.Any]
    matrix: Mapping[str, t.Any]

    def wants(self, name: str, *values: t.Any) -> bool:
        """Return whether the plan's `name` is one of the values."""
        return self.plan.get(name) in values

    def listed(self, name: str) -> Sequence[t.Any]:
        """Return a list of the cluster's facts, or an empty list if it was not read."""
        return self.cluster.get(name) or ()


Rule = Callable[[Case], Iterator[Finding]]


def judge(rules: Iterable[Rule], case: Case) -> list[Finding]:
    """Return the findings of all rules, the stopping ones first."""
    return ordered(finding for rule in rules for finding in rule(case))


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by level, the stopping ones first, then by check."""
    return sorted(findings, key=lambda finding: (_ORDER[finding.level], finding.check, finding.found))


def report(title: str, findings: Iterable[Finding]) -> str:
    """Return the report as text: a head line, and each finding with its change below it."""
    found = ordered(findings)
    counts = {level: sum(1 for finding in found if finding.level == level) for level in (STOP, WARN, OK)}
    lines = [f"{title}: {counts[STOP]} to fix, {counts[WARN]} to know, {counts[OK]} well"]
    for finding in found:
        lines.append(f"  [{_WORDS[finding.level]}] {finding.check}: {finding.found}")
        if finding.change:
            lines.append(f"         -> {finding.change}")
    return "\n".join(lines)


def result(title: str, findings: Iterable[Finding]) -> dict[str, t.Any]:
    """Return the findings in the form for filters."""
    found = ordered(findings)
    return {
        "findings": [asdict(finding) for finding in found],
        "report": report(title, found),
        "stop": [f"{finding.found}: {finding.change}" for finding in found if finding.level == STOP],
    }
