# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fault profiles by name, as rules that a document, the command line and the conformance suite use.

No profile strikes more often than a patient client can bear. It strikes the first or second request
of a kind, or some requests at random.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

Rules = tuple[Mapping[str, t.Any], ...]


def _on(purpose: str, kind: str, *nth: int, **parameters: t.Any) -> dict[str, t.Any]:
    return {"kind": kind, "purpose": purpose, **({"nth": list(nth)} if nth else {}), **parameters}


def _rarely(probability: float, *kinds: str) -> Rules:
    return tuple({"kind": kind, "probability": probability} for kind in kinds)


_NOW_AND_THEN: t.Final = ("lost_request", "lost_reply", "reset", "truncated", "not_json", "status")

PROFILES: t.Final[Mapping[str, Rules]] = {
    "none": (),
    "latency": ({"kind": "latency", "distribution": "exponential", "seconds": 0.003},),
    "slow-logins": (_on("login", "latency", distribution="uniform", seconds=0.05, spread=0.03),),
    "lost-request": (
        _on("read", "lost_request", 3), _on("attach", "lost_request", 1), _on("detach", "lost_request", 1),
    ),
    "lost-reply": (_on("read", "lost_reply", 3), _on("attach", "lost_reply", 1), _on("detach", "lost_reply", 1)),
    "doubled": (_on("attach", "doubled", 1), _on("detach", "doubled", 1)),
    "server-error": (
        _on("attach", "status", 1, status=500), _on("detach", "status", 1, status=500, html=True),
        _on("read", "status", 2, status=502, html=True),
    ),
    "server-error-after": (
        _on("attach", "status", 1, status=500, after=True), _on("detach", "status", 1, status=504, after=True),
    ),
    "unavailable": (
        _on("attach", "status", 1, status=503), _on("detach", "status", 1, status=503),
        _on("read", "status", 2, status=503),
    ),
    "mesh": (
        _on("attach", "status", 1, status=503, html=True, after=True),
        _on("detach", "status", 1, status=503, html=True, after=True),
    ),
    "throttled": tuple(_on(p, "status", 2, status=429, retry_after=0) for p in ("login", "read", "attach", "detach")),
    "busy": (_on("attach", "status", 1, status=409), _on("detach", "status", 1, status=409)),
    "revoked-token": (_on("read", "revoked_token", 2), _on("attach", "revoked_token", 1)),
    "clock-ahead": (_on("login", "clock_skew", seconds=7200),),
    "clock-behind": (_on("login", "clock_skew", seconds=-7200),),
    "truncated": (_on("attach", "truncated", 1), _on("detach", "truncated", 1), _on("read", "truncated", 2)),
    "not-json": (_on("attach", "not_json", 1), _on("detach", "not_json", 1), _on("read", "not_json", 2)),
    "slow-drip": (_on("attach", "slow_drip", 1, seconds=0.05), _on("read", "slow_drip", 2, seconds=0.05)),
    "reset": (
        _on("attach", "reset", 1), _on("attach", "reset", 2, after=True), _on("detach", "reset", 1, after=True),
        _on("read", "reset", 2),
    ),
    "certificate-change": (_on("attach", "certificate", 1, publish=True),),
    "device-warning": (_on("attach", "health", health="Warning"),),
    "device-critical": (_on("attach", "health", 1, health="Critical"),),
    "operation-failed": (_on("attach", "operation_failed", 1), _on("detach", "operation_failed", 1)),
    "vanishing-device": (_on("attach", "vanish", 1),),
    "restart": (_on("attach", "restart", 1), _on("detach", "restart", 1)),
    "flaky-network": _rarely(0.02, *_NOW_AND_THEN),
    "storm": (
        *_rarely(0.02, *_NOW_AND_THEN, "doubled"), _on("attach", "operation_failed", probability=0.1),
        # Not at random, and only once. A client that is refused twice in a row takes its
        # credentials as wrong.
        {"kind": "revoked_token", "nth": 5},
        {"kind": "latency", "distribution": "normal", "seconds": 0.002, "spread": 0.002, "probability": 0.5},
    ),
}
