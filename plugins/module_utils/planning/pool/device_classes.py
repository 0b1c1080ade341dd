# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the DeviceClasses that the devices of a pool would break.

kube-scheduler's allocator stops with an error at a device for which a selector returns an error,
such as ``no such key: type``. A pool of such devices would keep every pod of the class from every
node of the pool, even from devices that fit.

Source: ``DeviceMatches`` in ``k8s.io/dynamic-resource-allocation/cel/compile.go``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from ..device_info import DeviceModel
from ..scheduling.cel.parser import UnsupportedExpression, compile_expression, failure
from ..scheduling.cel.values import DeviceFacts

Json = Mapping[str, t.Any]


def pool_device(model: DeviceModel) -> DeviceFacts:
    """Return the attributes of a device of the model's pools: only the ``dra-attributes`` of its
    row.
    """
    named = {name if "/" in name else f"{model.driver_name}/{name}": value for name, value in model.attributes.items()}
    return DeviceFacts(model.driver_name, named, {}, complete=True)


def class_failures(model: DeviceModel, classes: Iterable[Json]) -> dict[str, str]:
    """Return by DeviceClass name the error that it would certainly return for the model's pool
    devices.
    """
    return {item["metadata"]["name"]: error for item in classes
            if (error := first_error(_selectors(item), model))}


def refusal(model: DeviceModel, classes: Iterable[Json]) -> str:
    """Return why no pool of the model may be published, in a sentence, empty if it may."""
    found = class_failures(model, classes)
    said = ", ".join(f"DeviceClass {name} would fail on their devices ({error})"
                     for name, error in sorted(found.items()))
    if not said:
        return ""
    return f"pools of {model.cdi_model_name} are not published: {said}. Add the attribute to dra-attributes"


def first_error(selectors: Iterable[str], model: DeviceModel) -> str:
    """Return the error that selectors certainly return for the model's pool devices, empty for
    none.

    The error is in CEL's words. Selectors are tried in order until the first that is not true.
    """
    device = pool_device(model)
    for expression in selectors:
        try:
            if error := failure(expression, device):
                return error
            if compile_expression(expression)(device) is not True:
                return ""
        except UnsupportedExpression:
            return ""
    return ""


def _selectors(item: Json) -> list[str]:
    return [str((each.get("cel") or {}).get("expression") or "")
            for each in (item.get("spec") or {}).get("selectors") or ()]
