# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of README, quickstart, guides and tutorials run as they are written, from the archive that is built.

The quick part is README and quickstart with the newest ansible-core. The rest is marked as slow.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.archive.installed import QUICK, REST, User
from ansible_collections.composable.infra.tests.archive.settings import SETTINGS, Prepared, World, prepare
from ansible_collections.composable.infra.tests.unit.roles.guides import (
    FIRST,
    PRINTS,
    Block,
    blocks,
    missing,
    pages_of,
)

TUTORIALS = pages_of("tutorials")


def cases() -> list[object]:
    """Return every environment with every block that is run. Two pages may have the same block."""
    alike = {(block.setting, block.text): block for block in reversed(blocks())
             if block.setting and block.page not in TUTORIALS}
    return [pytest.param(pair, block, id=f"{'-'.join(pair)}-{block.page}:{block.line}",
                         marks=() if pair == QUICK and block.page in FIRST else pytest.mark.slow)
            for pair in (QUICK, *REST) for block in reversed(alike.values())]


def tutorials() -> list[object]:
    """Return every environment with every tutorial. A tutorial takes as long as README and quickstart together."""
    return [pytest.param(pair, page, id=f"{'-'.join(pair)}-{page}", marks=pytest.mark.slow)
            for pair in (QUICK, *REST) for page in TUTORIALS]


@pytest.mark.parametrize(("pair", "block"), cases())
def test_it_runs(world: World, pair: tuple[str, str], block: Block, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    place = prepare(block, world, pair, folder)
    with place.ends:
        if block.until:
            place.user.run_until(block.until, block.text, folder, **place.variables)
        else:
            place.user.run(block.text, folder, **place.variables)


@pytest.mark.parametrize(("pair", "page"), tutorials())
def test_a_tutorial_runs_from_its_first_block_to_its_last(
    world: World, reader_of: Callable[[str, str, str], User], pair: tuple[str, str], page: str, tmp_path: Path
) -> None:
    """With the packages that it names, and no others."""
    folder, output = tmp_path / "work", ""
    folder.mkdir()
    place = Prepared(world, reader_of(*pair, page), pair, folder)
    with place.ends:
        place.ends.callback(stop_emulator, place)
        for block in [block for block in blocks() if block.page == page]:
            if block.setting:
                SETTINGS[block.setting](place)
                output = place.user.run(block.text, folder, **place.variables)
            elif block.mark == PRINTS:
                assert missing(block.text, output) == [], f"{page}:{block.line}\n{output[-6000:]}"


def stop_emulator(place: Prepared) -> None:
    """Stop the emulator of the user's home, which runs on when a block has failed."""
    place.user.run("python -m ansible_collections.composable.infra.emulator down", place.folder,
                   PYTHONPATH=str(place.user.home / ".ansible/collections"))
