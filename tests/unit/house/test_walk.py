# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lists of files in docs/contributors/code.md: each exists, is used by one before it, and the lists are short."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.unit.house.files import ROOT, text
from ansible_collections.composable.infra.tests.unit.house.import_rules import PACKAGE, imports
from ansible_collections.composable.infra.tests.unit.house.walk import MOST, UTILS, listed

API, CONNECT = f"{UTILS}fabric/api.py", f"{UTILS}fabric/connect.py"


def used_by(path: str) -> set[str]:
    """Files of ours that a file imports, lazy imports included."""
    found: set[str] = set()
    for _line, target in imports(path, text(Path(path))):
        if target.startswith(f"{PACKAGE}."):
            parts = target[len(PACKAGE) + 1:].split(".")
            found.update(f"{'/'.join(parts[:n])}.py" for n in (len(parts), len(parts) - 1))
    # Whoever knows the protocol FabricManager uses every driver that connect() makes.
    if API in found and path != CONNECT:
        found |= used_by(CONNECT)
    return {name for name in found if (ROOT / name).is_file()}


@pytest.mark.parametrize("way", MOST)
def test_a_way_is_short_and_its_files_exist(way: str) -> None:
    files = listed(way)
    assert 0 < len(files) <= MOST[way]
    assert len(set(files)) == len(files)
    assert [name for name in files if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("way", MOST)
def test_each_file_is_used_by_one_before_it(way: str) -> None:
    """The gated way begins where the other one has brought its reader."""
    known = listed("reschedule") if way == "gated" else []
    for name in listed(way):
        if known:
            assert [other for other in known if name in used_by(other)], f"nothing before {name} uses it"
        known.append(name)


def test_the_gated_way_repeats_nothing() -> None:
    assert not set(listed("gated")) & set(listed("reschedule"))
