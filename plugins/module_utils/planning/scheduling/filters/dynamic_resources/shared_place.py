# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that share an attribute of their place (``matchAttribute``): which idle ones do, by their ResourceSlice.

As ``matchAttributeConstraint`` of ``k8s.io/dynamic-resource-allocation/structured``: a device without the attribute is
never allocated, and values of unlike types are not the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...cycle import Take
from ...demand import DeviceRequest
from ...snapshot import IdleDevice
from .catalogue import Catalogue

Value = tuple[str, object]
Values = Mapping[tuple[int, int], Value]
"""By the number of the claim and that of its constraint."""
ModelTakes = tuple[tuple[str, Take], ...]


def shared_before(requests: Sequence[DeviceRequest], takes: Sequence[ModelTakes], catalogue: Catalogue) -> Values:
    """What the first requests of a pod have settled, by the devices that they took."""
    found: dict[tuple[int, int], Value] = {}
    for request, of_models in zip(requests, takes, strict=False):
        for model, take in of_models:
            for number, name in request.alternatives[0].shared if take.idle else ():
                if value := _value(take.idle[0], model, name, catalogue):
                    found[request.claim, number] = value
    return found


def ways_to_share(request: DeviceRequest, model: str, idle: Sequence[IdleDevice], fixed: Values,
                  catalogue: Catalogue) -> list[tuple[IdleDevice, ...]]:
    """As many of the idle devices as a request wants, once for each value that they can share; the first of each come
    first, as the scheduler tries them. ``fixed``: what requests before have settled."""
    wanted = request.alternatives[0]
    found: dict[tuple[Value, ...], list[IdleDevice]] = {}
    for device in idle:
        values = [_value(device, model, name, catalogue) for _number, name in wanted.shared]
        known = tuple(value for value in values if value is not None)
        settled = (fixed.get((request.claim, number)) for number, _name in wanted.shared)
        if len(known) == len(values) and all(s in (None, v) for s, v in zip(settled, values, strict=True)):
            found.setdefault(known, []).append(device)
    return [tuple(way[:wanted.count]) for way in found.values() if len(way) >= wanted.count]


def _value(device: IdleDevice, model: str, name: str, catalogue: Catalogue) -> Value | None:
    """With its type; None where the device does not say it."""
    found = catalogue.announced(device.device, model).find("attributes", name)
    return (found.__class__.__name__, found) if isinstance(found, (str, bool, int)) else None
