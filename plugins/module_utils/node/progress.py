# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hands on a node did so far, and how it is taken back.

Standard library only, Python 3.8: it travels to nodes.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable
from dataclasses import replace

from .evidence import Evidence, NodeTrouble
from .options import Options


class Progress:
    """Evidence that grows; every change is told to ``note`` at once."""

    def __init__(self, evidence: Evidence, options: Options, note: Callable[[Evidence], None]) -> None:
        self.evidence, self._clock, self._note = evidence, options.clock, note

    def become(self, evidence: Evidence) -> None:
        """This is the evidence now."""
        if evidence != self.evidence:
            self.evidence = evidence
            self._note(evidence)

    def step(self, step: str, **known: t.Any) -> None:
        """This step is done, and these fields of the evidence are known by it."""
        self.become(replace(self.evidence.with_step(step, self._clock()), **known))

    def trouble(self, trouble: NodeTrouble) -> None:
        """This was met; the evidence keeps its phase."""
        self.become(self.evidence.with_trouble(trouble.reason, trouble.message, self._clock()))


class Undo:
    """What takes the steps back that were done, the last one first."""

    def __init__(self) -> None:
        self._back: list[Callable[[], object]] = []

    def later(self, back: Callable[[], object]) -> None:
        """Keep what undoes a step. Whatever it raises keeps no other step from being undone."""
        self._back.append(back)

    def all(self) -> list[str]:
        """Undo everything; returns what could not be undone, one sentence each."""
        said = []
        while self._back:
            said += _failure(self._back.pop())
        return said


def _failure(back: Callable[[], object]) -> list[str]:
    try:
        back()
    except NodeTrouble as trouble:
        return [trouble.message]
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    return []
