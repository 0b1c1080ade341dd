# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that share an attribute of their place (``matchAttribute``).

For idle devices the ResourceSlice shows the place. For devices to be attached the place is known if
the whole fabric is behind one place of the node.

As ``matchAttributeConstraint`` of ``k8s.io/dynamic-resource-allocation/structured``: a device
without the attribute is never allocated, and values of different types are not the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...cycle import Take
from ...demand import DeviceRequest
from ...snapshot import IdleDevice
from .catalogue import Catalogue

Value = tuple[str, object]
Values = tuple[Value, ...]
Places = Mapping[str, "str | int"]
"""Values that all devices attached to a node share, by attribute without its domain."""
ModelTakes = tuple[tuple[str, Take], ...]


class SharedPlaces:
    """The places that the first requests of a pod have fixed on one node by the devices that they
    took.

    ``label``: DRA driver of the node, empty for the driver of the models' pools.
    """

    def __init__(self, requests: Sequence[DeviceRequest], takes: Sequence[ModelTakes], places: Places,
                 catalogue: Catalogue, label: str = "") -> None:
        self._places, self._catalogue, self._label = places, catalogue, label
        self._settled: dict[tuple[int, int], Value] = {}
        for request, of_models in zip(requests, takes, strict=False):
            for model, take in of_models:
                for number, name in request.alternatives[0].shared:
                    value = self._of(take.idle[0], model, name) if take.idle else self._to_come(model, name)
                    if value:
                        self._settled[request.claim, number] = value

    def groups(self, request: DeviceRequest, model: str, idle: Sequence[IdleDevice]) -> dict[Values, list[IdleDevice]]:
        """Return idle devices by their shared values, without those that contradict a fixed place.

        The order is that of kube-scheduler.
        """
        found: dict[Values, list[IdleDevice]] = {}
        for device in idle:
            values = [self._of(device, model, name) for _number, name in request.alternatives[0].shared]
            if (known := self._allowed(request, values)) is not None:
                found.setdefault(known, []).append(device)
        return found

    def to_come(self, request: DeviceRequest, model: str) -> Values | None:
        """Return the values that devices attached now will share, None if unknown or fixed
        otherwise.
        """
        return self._allowed(request, [self._to_come(model, name) for _number, name in request.alternatives[0].shared])

    def _allowed(self, request: DeviceRequest, values: Sequence[Value | None]) -> Values | None:
        known = tuple(value for value in values if value is not None)
        settled = (self._settled.get((request.claim, number)) for number, _name in request.alternatives[0].shared)
        fits = len(known) == len(values) and all(s in (None, v) for s, v in zip(settled, values, strict=True))
        return known if fits else None

    def _of(self, device: IdleDevice, model: str, name: str) -> Value | None:
        """Return the value with its type, None if the device does not have it."""
        return _value(self._catalogue.attribute(device, model, name))

    def _to_come(self, model: str, name: str) -> Value | None:
        """Return the value of a device to be attached, if devices of the model are known to have
        the attribute.
        """
        driver = self._catalogue.models[model].driver_on(self._label)
        said = name in self._catalogue.expected(model, driver).attributes
        return _value(self._places.get(name.rpartition("/")[2])) if said else None


def _value(found: object) -> Value | None:
    return (found.__class__.__name__, found) if isinstance(found, (str, bool, int)) else None
