# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that several claims may share, each with a part of a capacity (KEP-5075,
``DRAConsumableCapacity``).

Nothing divides the device itself. kube-scheduler counts the allocated parts, and each container
gets its part in a variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.framework.quantity import (
    BadQuantity,
    quantity,
)

from .devices import KINDS, NodeDevice

_TEXT = re.compile(r"(?P<devices>[^=]+)=(?P<capacity>[A-Za-z_][A-Za-z0-9_]{0,31}):(?P<amount>[^:]+):(?P<step>[^:]+)")


class BadShare(ValueError):
    """The text describes no share. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class Share:
    """How devices are shared.

    Each claim gets a part of ``amount`` of a ``capacity``, a multiple of ``step``.

    ``devices``: a row of the table of vendors, or a productName.
    """

    devices: str
    capacity: str
    amount: str
    step: str

    @property
    def capacities(self) -> Json:
        """``capacity`` of a device in a ResourceSlice.

        A request that names no part takes the whole, as before.
        """
        span = {"min": self.step, "max": self.amount, "step": self.step}
        return {self.capacity: {"value": self.amount, "requestPolicy": {"default": self.amount, "validRange": span}}}


def read_share(text: str) -> Share:
    """Read ``DEVICES=CAPACITY:AMOUNT:STEP``, such as ``nvidia=memory:80Gi:10Gi``.

    Raises BadShare.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise BadShare(f"{text!r} is not allowed. It must be DEVICES=CAPACITY:AMOUNT:STEP, such as "
                       f"nvidia=memory:80Gi:10Gi. DEVICES is a productName or one of {', '.join(KINDS)}")
    share = Share(**match.groupdict())
    try:
        amount, step = quantity(share.amount), quantity(share.step)
    except BadQuantity as error:
        raise BadShare(f"{text!r} is not allowed: {error}") from None
    if step < 1 or step.denominator != 1 or amount % step or amount < 2 * step:
        raise BadShare(f"{text!r} is not allowed. {share.amount} must be two or more whole steps of {share.step}")
    return share


def share_of(device: NodeDevice, shares: Iterable[Share]) -> Share | None:
    """Return the share for the device's productName, else for its kind.

    None if a single claim has the device.
    """
    found: Mapping[str, Share] = {share.devices: share for share in shares}
    return found.get(device.model) or found.get(device.kind)
