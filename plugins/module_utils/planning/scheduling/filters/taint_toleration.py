# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The taints that keep a pod from a node, or a claim from a device.

As kube-scheduler's ``framework/plugins/tainttoleration``. Device taints follow the same rules
(KEP-5055).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..snapshot import Json

REPELLING_EFFECTS = ("NoSchedule", "NoExecute")


def tolerates(toleration: Json, taint: Json) -> bool:
    """Return whether one toleration (of a pod, or of a device request) tolerates a taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(operator == "Exists")


def untolerated_taint(taints: Iterable[Json], tolerations: Iterable[Json]) -> Json | None:
    """Return the first taint with a repelling effect that no toleration tolerates, None if there is
    none.
    """
    known = tuple(tolerations)
    repelling = (taint for taint in taints if taint.get("effect") in REPELLING_EFFECTS)
    return next((taint for taint in repelling if not any(tolerates(each, taint) for each in known)), None)


def filter_taints(taints: Iterable[Json], tolerations: Iterable[Json]) -> str:
    """Return why the taints of a node refuse a pod, in kube-scheduler's words, empty if they do
    not.
    """
    taint = untolerated_taint(taints, tolerations)
    return "" if taint is None else f"had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"
