# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Constraints of a ResourceClaim: ``matchAttribute`` with one known value for all devices, or with
a place.

The values of attributes that depend on the place of a device are known only for present devices.
"""

from __future__ import annotations

from dataclasses import replace

from ...demand import DeviceRequest
from ...snapshot import Json
from .catalogue import Catalogue
from .devices import depends_on_place
from .requests import Unsupported


def apply_constraint(requests: list[DeviceRequest], constraint: Json, number: int,
                     catalogue: Catalogue) -> list[DeviceRequest]:
    """Apply one raw entry of ``constraints`` to the requests of a claim (KEP-4381,
    ``DeviceConstraint``).

    Two kinds are supported: a constraint that any choice of models meets, which needs no search for
    combinations, and a constraint on a place, for which present devices are searched. ``number``:
    number of the constraint. Raise Unsupported.
    """
    attribute = constraint.get("matchAttribute")
    names = set(constraint.get("requests") or (request.name for request in requests))
    constrained = [request for request in requests if request.name in names]
    names_subrequest = any("/" in name for name in names)
    if not attribute or names_subrequest or any(len(request.alternatives) > 1 for request in constrained):
        raise Unsupported("constraints need matchAttribute and requests without alternatives")
    if depends_on_place(attribute):
        return [_shared(request, number, attribute) if request.name in names else request for request in requests]
    shown = {(model, driver) for request in constrained for model in request.alternatives[0].models
             for driver, fits in catalogue.satisfies_by_driver(model, request.alternatives[0].expressions).items()
             if fits is not False}
    values = [catalogue.expected(*each).find("attributes", attribute) for each in shown]
    certain = all(isinstance(value, (str, bool, int)) for value in values)
    if not certain or len({(value.__class__, value) for value in values}) != 1:
        raise Unsupported(f"it is unknown which devices share {attribute}")
    return [_with_attribute(request, attribute) if request.name in names else request for request in requests]


def _shared(request: DeviceRequest, number: int, attribute: str) -> DeviceRequest:
    alternative = request.alternatives[0]
    shared = (*alternative.shared, (number, attribute))
    return replace(request, alternatives=(replace(alternative, shared=shared),))


def _with_attribute(request: DeviceRequest, attribute: str) -> DeviceRequest:
    alternative = request.alternatives[0]
    matched = replace(alternative, matched_attributes=(*alternative.matched_attributes, attribute))
    return replace(request, alternatives=(matched,))
