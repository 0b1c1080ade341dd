# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The written form of the handles by which an asynchronous manager knows its operations: one line for each.

It is what the annotation ``composable.infra/operation`` and the option ``handle`` of the modules hold.
"""

from __future__ import annotations


def written(handles: tuple[str, ...]) -> str:
    """Handles as one text; empty when there are none."""
    return "\n".join(handles)


def read(text: str) -> tuple[str, ...]:
    """The handles of a text that ``written`` made."""
    return tuple(text.split("\n")) if text else ()
