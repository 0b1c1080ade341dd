# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exempt lasting objects from garbage collection."""

from __future__ import annotations

import gc


def spare_collections() -> None:
    """Exempt the present objects from garbage collection.

    Most memory is in objects that stay, and a collection would scan them during a plan. Replaced
    objects are still freed by their reference counts.
    """
    gc.collect()
    gc.freeze()
