# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read from the status of a plugin's pod whether the plugin detected the devices before or after a
moment.
"""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.module_utils.model.value import Json

from ..node_state import started_at

# A kubelet writes whole seconds. A container that began at 10.9 has the moment 10.
RESOLUTION_SECONDS = 1.0
# One run of a pod's containers, by the pod's uid and the moment when the first container began.
Run = tuple[str, float]


def run_of(pod: Json) -> Run:
    """Return which run of the pod's containers its status shows."""
    return str(pod["metadata"].get("uid") or ""), started_at(pod)


def began_after(pod: Json, moment: float, *, is_successor: bool = False) -> bool:
    """Return whether all containers of the pod run, and each began after ``moment``, seconds since
    the epoch.

    ``is_successor``: every pod that ran at ``moment`` was deleted. A container with the second of
    ``moment`` then began after it.
    """
    floor = moment - RESOLUTION_SECONDS if is_successor else moment
    statuses = _statuses(pod)
    return bool(statuses) and all(map(_runs, statuses)) and started_at(pod) > floor


def is_starting(pod: Json) -> bool:
    """Return whether a container of the pod has yet to begin for the first time, and none has
    failed.
    """
    statuses = _statuses(pod)
    return not any(map(_has_failed, statuses)) and not (statuses and all(map(_runs, statuses)))


def _statuses(pod: Json) -> list[Json]:
    return (pod.get("status") or {}).get("containerStatuses") or []


def _runs(status: Json) -> bool:
    return bool((status.get("state") or {}).get("running"))


def _has_failed(status: Json) -> bool:
    """Return whether the container has ended and does not run.

    The kubelet restarts it, later each time.
    """
    state = status.get("state") or {}
    return not _runs(status) and bool(status.get("restartCount") or state.get("terminated"))
