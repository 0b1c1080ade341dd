# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a pod demands of the fabric: the requests of its claims as numbers of devices of certain models.

A request of KEP-4381 (DRA) names selectors; here it is a list of models whose devices satisfy them.
"""

from __future__ import annotations

from dataclasses import dataclass

Expressions = tuple[str, ...]
"""CEL expressions: of the DeviceClass, then of the request."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to satisfy a request: ``count`` devices, each of one of ``models`` and satisfying ``expressions``.

    ``tolerations``: of device taints, as key and value pairs that can be compared. ``matched_attributes``: attributes
    that the device must share with others of its claim (``matchAttribute``); all ``models`` agree on them. ``shared``:
    such attributes that depend on where a device is, each with the number of its constraint. ``attachable``: False
    where only of devices that are there it is known whether they satisfy it.
    """

    count: int
    models: tuple[str, ...]
    expressions: Expressions
    tolerations: tuple[tuple[tuple[str, str], ...], ...] = ()
    matched_attributes: tuple[str, ...] = ()
    shared: tuple[tuple[int, str], ...] = ()
    attachable: bool = True

    @property
    def raw_tolerations(self) -> tuple[dict[str, str], ...]:
        """The tolerations as JSON objects."""
        return tuple(dict(each) for each in self.tolerations)


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One request of the pod's claim number ``claim``: alternatives in the order in which the scheduler tries them.

    ``exactly`` has one alternative, ``firstAvailable`` (KEP-4816) several.
    """

    claim: int
    name: str
    alternatives: tuple[Alternative, ...]

    @property
    def ambiguous(self) -> bool:
        """Whether it can be satisfied in more than one way."""
        return len(self.alternatives) > 1 or len(self.alternatives[0].models) > 1

    @property
    def largest_count(self) -> int:
        """Devices of the alternative that takes most."""
        return max(alternative.count for alternative in self.alternatives)


@dataclass(frozen=True, slots=True)
class Demand:
    """All requests of a pod. ``claims``: uids of its claims; ``signature``: equal only for equal requests.

    ``extended``: extended resources that are served by devices, where no device plugin serves them.
    """

    requests: tuple[DeviceRequest, ...]
    claims: tuple[str, ...]
    signature: int
    extended: frozenset[str] = frozenset()

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that could serve some of it, sorted."""
        return tuple(sorted({m for r in self.requests for a in r.alternatives for m in a.models}))

    @property
    def simple(self) -> bool:
        """Whether it is for so many devices of one model. Then a node that can meet it does so in the same way however
        many devices are free, and one that cannot lacks the same."""
        return len(self.requests) == 1 and not self.requests[0].ambiguous

    @property
    def count(self) -> int:
        """The largest number of devices that it may take."""
        return sum(request.largest_count for request in self.requests)
