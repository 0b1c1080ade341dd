# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stories share: the sources of an older version, unpacked once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.e2e.stories import older


@pytest.fixture(scope="session")
def old_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the older version, in a folder of their own."""
    return older.sources(tmp_path_factory.mktemp("old"))
