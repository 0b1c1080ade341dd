# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each guard of the engine is broken on purpose, and the runs notice it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.composable.infra.tests.chaos.invariants import kinds
from ansible_collections.composable.infra.tests.chaos.mutants import MUTANTS, Mutant
from ansible_collections.composable.infra.tests.chaos.runs import run, scenario

MOST = 150


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_broken_guard_is_noticed(mutant: Mutant) -> None:
    """Try the known seed first. After a change of the engine other seeds may show it."""
    with mutant.alive():
        found = (seed for seed in (mutant.known, *range(MOST))
                 if kinds(run(mutant.provoked(scenario(seed))).violations) & mutant.seen_as)
        seed = next(found, None)
    assert seed is not None, f"{MOST} runs did not notice: {mutant.name}"
    assert run(mutant.provoked(scenario(seed))).violations == (), "nothing else is wrong there"


def test_mutant_without_its_place_in_the_source_is_an_error() -> None:
    edit = replace(MUTANTS[0].edits[0], old="no such text")
    with pytest.raises(LookupError, match="is 0 times"), replace(MUTANTS[0], edits=(edit,)).alive():
        pass
