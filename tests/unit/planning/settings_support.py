# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_settings.py` and others share."""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.tests.unit.planning.builders import (
    A100,
    row,
)


def table(**changes: t.Any) -> dict[str, t.Any]:
    """A configuration of one model with some keys of its row changed; a value of None leaves the key out."""
    entry = {**row(0, A100, "a100"), **{k.replace("_", "-"): v for k, v in changes.items()}}
    return {"device_info": [{k: v for k, v in entry.items() if v is not None}]}
