# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cordoned nodes. As kube-scheduler's ``framework/plugins/nodeunschedulable``."""

from __future__ import annotations

from collections.abc import Iterable

from ..snapshot import Json
from .taint_toleration import untolerated_taint

TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def filter_unschedulable(unschedulable: bool, tolerations: Iterable[Json]) -> str:
    """Return why a node with this ``spec.unschedulable`` refuses a pod, empty if it does not.

    The reason is in kube-scheduler's words. A pod that tolerates the taint of cordoned nodes may
    run there.
    """
    return "were unschedulable" if unschedulable and untolerated_taint((TAINT,), tolerations) is not None else ""
