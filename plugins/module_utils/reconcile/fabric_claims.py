# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find claims for devices that the fabric serves."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.claim import ResourceClaim
from ..model.value import Json
from ..planning.settings import Settings


def concerns(claim: ResourceClaim, settings: Settings) -> bool:
    """Return whether a claim requests, or has, devices that the fabric serves."""
    if any(result.driver in settings.drivers for result in claim.results):
        return True
    classes = (each for request in claim.requests for each in _classes(request))
    return any(name in settings.device_classes for name in classes) or claim.special


def _classes(request: Json) -> Iterator[str]:
    for each in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
        if name := each.get("deviceClassName"):
            yield str(name)
