# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The devices that a pod demands: the requests of its claims as numbers of devices of certain
models.

A request of KEP-4381 (DRA) has selectors. Here it is a list of models with devices that satisfy
them.
"""

from __future__ import annotations

from dataclasses import dataclass

Expressions = tuple[str, ...]
"""CEL expressions of the DeviceClass, then of the request."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to satisfy a request: ``count`` devices of ``models`` that satisfy ``expressions``.

    ``tolerations``: tolerations of device taints, as comparable pairs of key and value.
    ``matched_attributes``: attributes that the device must share with others of its claim
    (``matchAttribute``). All ``models`` have the same value. ``shared``: such attributes that
    depend on the place of a device, each with the number of its constraint. ``attachable``: False
    if only present devices are known to satisfy it.
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
        """Return the tolerations as JSON objects."""
        return tuple(dict(each) for each in self.tolerations)


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One request of the pod's claim number ``claim``, with alternatives in kube-scheduler's order.

    ``exactly`` has one alternative, ``firstAvailable`` (KEP-4816) several.
    """

    claim: int
    name: str
    alternatives: tuple[Alternative, ...]

    @property
    def ambiguous(self) -> bool:
        """Return whether there is more than one way to satisfy it."""
        return len(self.alternatives) > 1 or len(self.alternatives[0].models) > 1

    @property
    def largest_count(self) -> int:
        """Return the number of devices of the largest alternative."""
        return max(alternative.count for alternative in self.alternatives)


@dataclass(frozen=True, slots=True)
class Demand:
    """All requests of a pod.

    ``claims``: UIDs of its claims. ``signature``: equal only for equal requests. ``extended``:
    extended resources that devices serve, if no device plugin serves them.
    """

    requests: tuple[DeviceRequest, ...]
    claims: tuple[str, ...]
    signature: int
    extended: frozenset[str] = frozenset()

    @property
    def models(self) -> tuple[str, ...]:
        """Return every model that could serve a part of it, sorted."""
        return tuple(sorted({m for r in self.requests for a in r.alternatives for m in a.models}))

    @property
    def simple(self) -> bool:
        """Return whether it is one request for devices of one model.

        A node that can meet such a demand does so in the same way for any number of free devices. A
        node that cannot meet it lacks the same.
        """
        return len(self.requests) == 1 and not self.requests[0].ambiguous

    @property
    def count(self) -> int:
        """Return the largest number of devices that it may take."""
        return sum(request.largest_count for request in self.requests)
