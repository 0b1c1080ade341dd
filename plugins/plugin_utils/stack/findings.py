# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a check has to say: a level, what was found, and what to change. Reports are made from these alone."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

STOP, WARN, OK = "stop", "warn", "ok"
_ORDER = {STOP: 0, WARN: 1, OK: 2}
_WORDS = {STOP: "STOP", WARN: "warn", OK: "ok  "}


@dataclass(frozen=True, slots=True)
class Finding:
    """One judgement. `change` is a sentence in the imperative; empty for `ok`."""

    check: str
    level: str
    found: str
    change: str = ""


def stop(check: str, found: str, change: str) -> Finding:
    """It cannot work like this."""
    return Finding(check, STOP, found, change)


def warn(check: str, found: str, change: str) -> Finding:
    """It works, with a price."""
    return Finding(check, WARN, found, change)


def ok(check: str, found: str) -> Finding:
    """It is well."""
    return Finding(check, OK, found)


@dataclass(frozen=True, slots=True)
class Case:
    """What is judged: the cluster as read, what the roles shall do, and the version matrix."""

    cluster: Mapping[str, t.Any]
    plan: Mapping[str, t.Any]
    matrix: Mapping[str, t.Any]

    def wants(self, name: str, *values: t.Any) -> bool:
        """Whether the plan's `name` is one of the values."""
        return self.plan.get(name) in values

    def listed(self, name: str) -> Sequence[t.Any]:
        """A list of the cluster's facts; empty when it was not read."""
        return self.cluster.get(name) or ()


Rule = Callable[[Case], Iterator[Finding]]


def judge(rules: Iterable[Rule], case: Case) -> list[Finding]:
    """Everything that the rules find, what stops first."""
    return ordered(finding for rule in rules for finding in rule(case))


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """What stops first, then warnings, then what is well; by check within."""
    return sorted(findings, key=lambda finding: (_ORDER[finding.level], finding.check, finding.found))


def report(title: str, findings: Iterable[Finding]) -> str:
    """The readable report: a head line, one line per finding, what to change below it."""
    found = ordered(findings)
    counts = {level: sum(1 for finding in found if finding.level == level) for level in (STOP, WARN, OK)}
    lines = [f"{title}: {counts[STOP]} to mend, {counts[WARN]} to know, {counts[OK]} well"]
    for finding in found:
        lines.append(f"  [{_WORDS[finding.level]}] {finding.check}: {finding.found}")
        if finding.change:
            lines.append(f"         -> {finding.change}")
    return "\n".join(lines)


def result(title: str, findings: Iterable[Finding]) -> dict[str, t.Any]:
    """The form that filters return."""
    found = ordered(findings)
    return {
        "findings": [asdict(finding) for finding in found],
        "report": report(title, found),
        "stop": [f"{finding.found}: {finding.change}" for finding in found if finding.level == STOP],
    }
