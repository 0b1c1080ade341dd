# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The condition Ready of the custom resources, so that ``kubectl wait`` needs no knowledge of their
states.

Source: metav1.Condition. ``observedGeneration`` is the ``metadata.generation`` of the object that
the status describes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..api_resources import Object

READY = "Ready"
MESSAGE_LIMIT = 32768
_READY_STATES = ("Online", "Running")


def with_ready(present: Sequence[Object], generation: int, status: Object, now: str) -> list[Object]:
    """Return the conditions of an object of CoHDI's kinds for a new status: Ready, and the others
    unchanged.

    ``present``: its conditions. ``generation``: its ``metadata.generation``. ``status``: the new
    status with ``state`` and ``error``. ``now`` (RFC 3339, seconds): becomes lastTransitionTime if
    Ready changes. An object is ready if its state is the wanted one and it has no error.
    """
    old: Object = next((condition for condition in present if condition.get("type") == READY), {})
    state, error = str(status.get("state") or ""), str(status.get("error") or "")
    ready = "True" if state in _READY_STATES and not error else "False"
    new: dict[str, Any] = {
        "type": READY, "status": ready, "reason": state or "Pending", "message": error[:MESSAGE_LIMIT],
        "observedGeneration": generation,
        "lastTransitionTime": old["lastTransitionTime"] if old.get("status") == ready else now}
    return [new if condition is old else condition for condition in present] if old else [*present, new]


def outdated(present: Iterable[Object], generation: int) -> bool:
    """Return whether the condition Ready is of an older generation, False without the condition."""
    return any(condition.get("type") == READY and int(condition.get("observedGeneration") or 0) < generation
               for condition in present)
