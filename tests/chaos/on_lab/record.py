# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorded runs on the lab: a line of JSON for each seed, and the sums in
docs/contributors/reliability.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from ansible_collections.composable.infra.tests.chaos.on_lab.run import LabOutcome

PATH = Path(__file__).parents[1] / "results" / "lab.jsonl"


@dataclass(frozen=True, slots=True)
class Sums:
    """Numbers of many runs: runs, failed runs, attached devices, hours."""

    runs: int
    failed: int
    attaches: int
    hours: float

    def __str__(self) -> str:
        return (f"{self.runs} runs, {self.runs - self.failed} passed, {self.failed} failed; "
                f"{self.attaches} devices attached in {self.hours:.1f} hours")


def write(outcome: LabOutcome, path: Path = PATH) -> None:
    """Add a run. A later run of the same seed replaces the earlier one."""
    kept = [found for found in read(path) if found.seed != outcome.seed]
    lines = [json.dumps({**asdict(found), "seconds": round(found.seconds, 1)})
             for found in sorted([*kept, outcome], key=lambda found: found.seed)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read(path: Path = PATH) -> list[LabOutcome]:
    """Return the recorded runs, none if there is no file."""
    if not path.exists():
        return []
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [LabOutcome(**{**entry, "violations": tuple(entry["violations"])}) for entry in found]


def sums(found: Iterable[LabOutcome]) -> Sums:
    """Return the sums of many runs."""
    them = list(found)
    return Sums(len(them), sum(bool(it.violations) for it in them), sum(it.attaches for it in them),
                sum(it.seconds for it in them) / 3600)
