# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the module ``claim_info``. A driver's collection can offer it under its own name."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from .. import cluster_module, engine_module
from ..module_base import TaskContext
from ..planning.actions import WaitReason
from ..reconcile.oneshot import run as session

SPEC = engine_module.spec(
    namespace={"type": "str"},
    name={"type": "str"},
    waiting={"type": "bool", "default": False},
    wait={"type": "bool", "default": False},
    wait_timeout={"type": "float", "default": 300.0},
)


def work(task: TaskContext) -> dict[str, object]:
    """Read cluster and fabric and return what each claim waits for. Write nothing.

    With ``wait``, repeat until no selected claim waits. Return ``claims``, sorted by namespace and
    name, and ``problems``, with ``failed`` if claims still wait after the timeout. Raise BadConfig,
    NotReady or ApiError.
    """
    params = task.params
    run = session.Run(cluster_module.cluster(params), engine_module.config(task), params["ready_timeout"])
    wait_reasons, problems = run.explain(lambda found: not params["wait"] or not _missing(found, params),
                                         params["wait_timeout"])
    found = [v for v in wait_reasons if _asked_for(v.claim, params) and (v.waits_for or not params["waiting"])]
    result: dict[str, object] = {"claims": [session.wait_reason_result(v) for v in found], "problems": problems}
    if params["wait"] and (missing := _missing(wait_reasons, params)):
        result |= {"failed": True, "msg": f"after {params['wait_timeout']:g} s {missing}", "error": "NotReached"}
    return result


def _missing(wait_reasons: Iterable[WaitReason], params: Mapping[str, t.Any]) -> str:
    """Return a sentence about the selected claims that still wait, or an empty text."""
    asked = [v for v in wait_reasons if _asked_for(v.claim, params)]
    if params["name"] is not None and not asked:
        return f"there is no ResourceClaim {params['name']} in " + (
            f"namespace {params['namespace']}" if params["namespace"] else "any namespace")
    return "; ".join(f"{v.claim} waits for {v.waits_for}" for v in asked if v.waits_for)


def _asked_for(claim: str, params: Mapping[str, t.Any]) -> bool:
    namespace, _sep, name = claim.partition("/")
    return params["namespace"] in (None, namespace) and params["name"] in (None, name)


def main() -> None:
    """Run the module."""
    engine_module.main(SPEC, work)
