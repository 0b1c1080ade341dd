# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check whether kube-scheduler may allocate a device in a ResourceSlice to a request of a claim."""

from __future__ import annotations

from collections.abc import Mapping

from ...cel.parser import UnsupportedExpression, compile_expression
from ...cel.values import DeviceFacts
from ...snapshot import Json
from ..taint_toleration import untolerated_taint
from .devices import announced_device


def misfit(spec: Json, request: str, device: Json, driver: str, classes: Mapping[str, Json]) -> str:
    """Return why kube-scheduler will not allocate a device to a request, empty if it may or if
    unknown.

    ``spec``: of the claim. ``request``: as an allocation names it, a subrequest after a slash.
    ``device``: its entry in the slice of ``driver``. ``classes``: raw DeviceClasses by name. Any
    alternative of a request counts (KEP-4816), because a new allocation may choose another one.
    """
    name = request.partition("/")[0]
    listed = (spec.get("devices") or {}).get("requests") or ()
    found: Json = next((each for each in listed if each.get("name") == name), {})
    alternatives = [found["exactly"]] if found.get("exactly") else found.get("firstAvailable") or []
    facts = announced_device(device, driver)
    reasons = [_misfit(alternative, device, facts, classes) for alternative in alternatives]
    return reasons[0] if reasons and all(reasons) else ""


def _misfit(alternative: Json, device: Json, facts: DeviceFacts, classes: Mapping[str, Json]) -> str:
    if taint := untolerated_taint(device.get("taints") or (), alternative.get("tolerations") or ()):
        return f"has the taint {taint['key']}:{taint['effect']}"
    known = (classes.get(str(alternative.get("deviceClassName"))) or {}).get("spec") or {}
    for selector in (*(known.get("selectors") or ()), *(alternative.get("selectors") or ())):
        expression = str((selector.get("cel") or {}).get("expression") or "")
        try:
            if compile_expression(expression)(facts) is False:
                return f"does not satisfy {expression!r}"
        except UnsupportedExpression:
            continue
    return ""
