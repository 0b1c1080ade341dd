# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_quiescence.py` and others share."""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.module_utils.model.value import Json


class Events:
    """A recorder that only remembers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, str]] = []

    def event(self, regarding: Json, reason: str, message: str, type_: str = "Normal") -> None:
        self.seen.append((regarding["kind"], regarding["metadata"]["name"], reason, type_))
