# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys in log lines: which controller works on what."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import (
    GatesKey,
    Key,
    NodeKey,
    NodeRecordsKey,
    NominationsKey,
    PoolKey,
    RequestKey,
)


@pytest.mark.parametrize(("key", "text"), [
    (NodeKey("n"), "node/n"), (NodeRecordsKey("n"), "node-records/n"), (PoolKey("A100", 2), "pool/A100/2"),
    (RequestKey("r"), "request/r"), (GatesKey(), "gates"), (NominationsKey(), "nominations"),
])
def test_the_text_of_a_key(key: Key, text: str) -> None:
    assert str(key) == text


def test_keys_of_two_controllers_differ() -> None:
    assert len({NodeKey("a"), NodeRecordsKey("a"), RequestKey("a")}) == 3
