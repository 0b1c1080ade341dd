# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents with holes, at random places: what a reader must endure or refuse."""

from __future__ import annotations

import random
import typing as t


def cut(value: t.Any, rng: random.Random) -> None:
    """Replace something somewhere in a JSON document."""
    while isinstance(value, (dict, list)) and value:
        key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if rng.random() < 0.3 or not isinstance(value[key], (dict, list)):
            value[key] = rng.choice([None, "", 7, [], {}])
            return
        value = value[key]
