# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count the devices of machines by state, for each fabric and model, and for each box.

Update the counts with the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ansible_collections.composable.infra.controller.ui.rows import NodeRow

Box = tuple[int, str]
_Place = tuple[int, str, str, str]


class DeviceCounts:
    """The counts. Not thread-safe.

    ``models``: by fabric and model. ``boxes``: by fabric and box, of devices with a known box.
    """

    def __init__(self) -> None:
        self._of: dict[str, Counter[_Place]] = {}
        self.models: dict[tuple[int, str], Counter[str]] = {}
        self.boxes: dict[Box, Counter[str]] = {}
        self._changed: set[Box] = set()

    def count(self, key: str, row: NodeRow | None) -> bool:
        """Count the devices of a node's or machine's row.

        Return False if the counts stay the same.
        """
        new: Counter[_Place] = Counter()
        if row and row.fabric is not None:
            new.update((row.fabric, device.model, device.box, device.state) for device in row.devices)
        old = self._of.pop(key, Counter())
        if new:
            self._of[key] = new
        for place, number in (new - old).items():
            self._add(place, number)
        for place, number in (old - new).items():
            self._add(place, -number)
        return new != old

    def _add(self, place: _Place, number: int) -> None:
        fabric, model, box, state = place
        self.models.setdefault((fabric, model), Counter())[state] += number
        if box:
            self.boxes.setdefault((fabric, box), Counter())[state] += number
            self._changed.add((fabric, box))

    def seen(self, boxes: Iterable[Box]) -> None:
        """Note a poll of the fabric. ``boxes``: boxes with free devices.

        All boxes count as changed then.
        """
        for box in boxes:
            self.boxes.setdefault(box, Counter())
        self._changed.update(self.boxes)

    def changed(self) -> list[Box]:
        """Return the boxes that may have changed since the last call."""
        found, self._changed = sorted(self._changed), set()
        return found
