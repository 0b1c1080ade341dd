# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/managers.md and docs/contributors/conformance.md say what the code and the checks say, no more and no less."""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.module_utils.fabric.conformance.checks import FAILED, SKIPPED
from ansible_collections.composable.infra.plugins.module_utils.fabric.registry import MANAGERS
from ansible_collections.composable.infra.tests.conformance.managers import MAIN, ROWS, Emulators
from ansible_collections.composable.infra.tests.conformance.managers_page import (
    CHECKS_PAGE,
    PAGE,
    checks_page,
    examine,
    page,
)


def test_the_page_is_up_to_date(emulators: Emulators) -> None:
    found = {name: examine(emulators, name) for name in MAIN}
    outcomes = {result.outcome for examined in found.values() for result in examined.results}
    assert not outcomes & {FAILED, SKIPPED}
    assert PAGE.read_text(encoding="utf-8") == page(found), "it is out of date: make managers-page"
    assert CHECKS_PAGE.read_text(encoding="utf-8") == checks_page(found), "it is out of date: make managers-page"


def test_every_manager_is_examined() -> None:
    assert {row.manager for row in ROWS.values()} == set(MANAGERS)
