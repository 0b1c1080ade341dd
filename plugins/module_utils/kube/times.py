# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RFC 3339 times as Kubernetes writes them (``metav1.Time``: seconds, ``metav1.MicroTime``:
microseconds).
"""

from __future__ import annotations

from datetime import UTC, datetime


def format_time(moment: float) -> str:
    """Return epoch seconds as ``metav1.Time``: ``2026-01-02T03:04:05Z``."""
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(moment: float) -> str:
    """Return epoch seconds as ``metav1.MicroTime``: ``2026-01-02T03:04:05.000000Z``."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str | None) -> float:
    """Return the epoch seconds of either form.

    Return 0.0 for an absent or invalid time, so that an invalid object stops no caller.
    """
    try:
        moment = datetime.fromisoformat(text or "")
    except (TypeError, ValueError):
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
