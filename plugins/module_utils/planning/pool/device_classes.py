# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which DeviceClasses the devices of a pool would break.

The scheduler's allocator stops with an error at a device for which a selector gives one, such as ``no such key: type``.
A pool of such devices would keep every pod of the class from every node of the pool, also from devices that fit.
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
    """What a selector finds on a device of the model's pools: the ``dra-attributes`` of its row, and nothing else."""
    named = {name if "/" in name else f"{model.driver_name}/{name}": value for name, value in model.attributes.items()}
    return DeviceFacts(model.driver_name, named, {}, complete=True)


def class_failures(model: DeviceModel, classes: Iterable[Json]) -> dict[str, str]:
    """The error that each DeviceClass (by name) would certainly give for the model's pool devices."""
    return {item["metadata"]["name"]: error for item in classes
            if (error := first_error(_selectors(item), model))}


def refusal(model: DeviceModel, classes: Iterable[Json]) -> str:
    """Why no pool of the model may be published, in a sentence; empty when it may."""
    found = class_failures(model, classes)
    said = "; ".join(f"DeviceClass {name} would fail on it: {error}" for name, error in sorted(found.items()))
    if not said:
        return ""
    return f"pools of {model.cdi_model_name} are not published: {said}; name the attribute in dra-attributes"


def first_error(selectors: Iterable[str], model: DeviceModel) -> str:
    """The error that selectors certainly give for the model's pool devices, in CEL's words; empty when there is none.

    They are tried in order, and the first that does not hold ends the trial.
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
