# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of README, quickstart and guides run as they are written, from the archive that is built.

The quick part is README and quickstart with the newest ansible-core. The rest is marked as slow.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.archive.installed import QUICK, REST
from ansible_collections.composable.infra.tests.archive.settings import World, prepare
from ansible_collections.composable.infra.tests.unit.roles.guides import FIRST, Block, blocks


def cases() -> list[object]:
    """Return every environment with every block that is run. Two pages may have the same block."""
    alike = {(block.setting, block.text): block for block in reversed(blocks()) if block.setting}
    return [pytest.param(pair, block, id=f"{'-'.join(pair)}-{block.page}:{block.line}",
                         marks=() if pair == QUICK and block.page in FIRST else pytest.mark.slow)
            for pair in (QUICK, *REST) for block in reversed(alike.values())]


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
