# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the bench of the page is fed with: each change is asked of the emulated manager, and reaches the page."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.controller.ui.scope import Scope
from ansible_collections.composable.infra.tests.bench.large import objects
from ansible_collections.composable.infra.tests.bench.page.fed import Fed, fed

NODES = 3


@pytest.fixture(scope="module")
def shown() -> Iterator[Fed]:
    """Three nodes with eight devices each, of which four are used."""
    with fed(NODES) as made:
        made.look()
        made.view.open()
        yield made


def node(number: int) -> str:
    return f"node/{objects.name_of(number)}"


def states(shown: Fed, number: int) -> list[str]:
    """Of the devices of a node, as the page shows them."""
    row = shown.view.row(node(number))
    return sorted(device["state"] for device in row["devices"])


def test_page_shows_what_the_manager_and_the_api_server_have(shown: Fed) -> None:
    rows: dict[str, t.Any] = json.loads(shown.view.snapshot(Scope()))["rows"]
    assert sorted(key for key in rows if key.startswith("node/")) == [node(number) for number in range(NODES)]
    assert states(shown, 0) == ["idle"] * 4 + ["in-use"] * 4


def test_a_change_is_the_managers_and_one_row_of_the_page(shown: Fed) -> None:
    shown.change(0)
    assert len(shown.fabric.machine(objects.machine(0)).devices) == objects.GPUS - 1
    change = shown.view.refresh()
    assert [key for key in change.rows if key.startswith("node/")] == [node(0)]
    assert states(shown, 0) == ["idle"] * 3 + ["in-use"] * 4 + ["leaving"]
    with pytest.raises(RuntimeError, match="23 devices"):
        shown.look()
    shown.change(1)
    shown.look()
    shown.view.refresh()
    assert states(shown, 0) == ["idle"] * 4 + ["in-use"] * 4
