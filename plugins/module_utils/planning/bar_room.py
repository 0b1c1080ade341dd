# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room for the memory windows (BARs) of devices behind the fabric's ports of a node.

Only the sum is known. A window can lack contiguous room although the sum is large enough. The node
then reports the problem.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from .device_info import DeviceModel

BAR_ROOM: t.Final = "barRoom"
"""Key of the number of bytes in the place facts that a node agent publishes."""
GIB: t.Final = 1 << 30


@dataclass(frozen=True, slots=True)
class BarRoom:
    """Bytes that a node has and bytes that each model needs.

    ``total``: bytes behind the fabric's ports of a node, None if unknown. ``sizes``: bytes that one
    device needs, by model. Models that are absent or need 0 are not counted.
    """

    total: int | None
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, places: Mapping[str, str | int], models: t.Iterable[DeviceModel]) -> BarRoom:
        """Build the room of a node from ``places``, the place facts that its agent published."""
        total = places.get(BAR_ROOM)
        return cls(total if isinstance(total, int) else None, {m.cdi_model_name: m.bar_size for m in models})

    def lack(self, model: str, more: int, others: Mapping[str, int]) -> str:
        """Return why ``more`` devices of a model have no room beside ``others`` (devices by model).

        Return an empty text if they have room, or if that is unknown.
        """
        fits = self.fits(model, others)
        if self.total is None or fits is None or more <= fits:
            return ""
        return (f"no room for the memory windows (BARs) of {more} x {model}: they need "
                f"{_gib(more * self.sizes[model])}, but {_gib(self._left(others))} of {_gib(self.total)} behind the "
                "fabric's ports are free")

    def fits(self, model: str, others: Mapping[str, int]) -> int | None:
        """Return how many devices of a model have room beside ``others``, None if unknown."""
        size = self.sizes.get(model, 0)
        return self._left(others) // size if self.total is not None and size else None

    def _left(self, others: Mapping[str, int]) -> int:
        used = sum(self.sizes.get(name, 0) * n for name, n in others.items())
        return max(0, (self.total or 0) - used)

    def never(self, model: str, count: int) -> bool:
        """Return whether ``count`` devices of the model have no room even on an empty node."""
        return bool(self.lack(model, count, {}))


def _gib(size: int) -> str:
    return f"{size / GIB:g} GiB" if size % GIB == 0 else f"{size / GIB:.1f} GiB"
