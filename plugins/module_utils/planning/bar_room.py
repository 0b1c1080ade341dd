# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room for the memory windows (BARs) of devices: what is behind the fabric's ports of a node, and what models need.

A sum alone is known: a device may find no room for one window though there is enough in all. The node says so then.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from .device_info import DeviceModel

BAR_ROOM: t.Final = "barRoom"
"""Bytes, among what is known of the place where the devices of a node come."""
GIB: t.Final = 1 << 30


@dataclass(frozen=True, slots=True)
class BarRoom:
    """``total``: bytes behind the fabric's ports of a node, None where that is not known. ``sizes``: bytes that one
    device needs, by model; a model that is absent, or needs 0, is not counted."""

    total: int | None
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, places: Mapping[str, str | int], models: t.Iterable[DeviceModel]) -> BarRoom:
        """Of a node, by what its agent told of the place."""
        total = places.get(BAR_ROOM)
        return cls(total if isinstance(total, int) else None, {m.cdi_model_name: m.bar_size for m in models})

    def lack(self, model: str, more: int, others: Mapping[str, int]) -> str:
        """Why ``more`` devices of a model have no room beside the ``others``, as counted by model; empty when they
        have, or nobody knows."""
        fits = self.fits(model, others)
        if self.total is None or fits is None or more <= fits:
            return ""
        return (f"no room for the memory windows (BARs) of {more} x {model}: they need "
                f"{_gib(more * self.sizes[model])}, and {_gib(self._left(others))} of {_gib(self.total)} behind the "
                "fabric's ports are left")

    def fits(self, model: str, others: Mapping[str, int]) -> int | None:
        """How many devices of a model have room beside the others; None where nobody knows."""
        size = self.sizes.get(model, 0)
        return self._left(others) // size if self.total is not None and size else None

    def _left(self, others: Mapping[str, int]) -> int:
        used = sum(self.sizes.get(name, 0) * n for name, n in others.items())
        return max(0, (self.total or 0) - used)

    def never(self, model: str, count: int) -> bool:
        """Whether so many devices of the model have no room even when they are alone."""
        return bool(self.lack(model, count, {}))


def _gib(size: int) -> str:
    return f"{size / GIB:g} GiB" if size % GIB == 0 else f"{size / GIB:.1f} GiB"
