# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The condition Ready of our custom resources, by which ``kubectl wait`` and others know them without their states.

Source: metav1.Condition; ``observedGeneration`` is the ``metadata.generation`` that the status is about.
"""

from __future__ import annotations

from typing import Any

from ..api_resources import Object

READY = "Ready"
MESSAGE_LIMIT = 32768
_READY_STATES = ("Online", "Running")


def with_ready(obj: Object, status: Object, now: str) -> list[Object]:
    """The conditions of an object of CoHDI's kinds once it has this status: Ready, and those of others as they are.

    ``status``: what it will say, with ``state`` and ``error``. ``now`` (RFC 3339, seconds) becomes lastTransitionTime
    unless Ready stays what it was. An object is ready while its state is the wanted one and nothing is wrong.
    """
    present = (obj.get("status") or {}).get("conditions") or []
    old: Object = next((condition for condition in present if condition.get("type") == READY), {})
    state, error = str(status.get("state") or ""), str(status.get("error") or "")
    ready = "True" if state in _READY_STATES and not error else "False"
    new: dict[str, Any] = {
        "type": READY, "status": ready, "reason": state or "Pending", "message": error[:MESSAGE_LIMIT],
        "observedGeneration": int(obj["metadata"].get("generation") or 0),
        "lastTransitionTime": old["lastTransitionTime"] if old.get("status") == ready else now}
    return [new if condition is old else condition for condition in present] if old else [*present, new]


def outdated(obj: Object) -> bool:
    """Whether its Ready is about an older generation; one without Ready is not."""
    generation = int(obj["metadata"].get("generation") or 0)
    return any(condition.get("type") == READY and int(condition.get("observedGeneration") or 0) < generation
               for condition in (obj.get("status") or {}).get("conditions") or [])
