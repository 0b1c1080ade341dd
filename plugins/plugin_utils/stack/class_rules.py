# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the selectors of the cluster for devices in the pools."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

from ...module_utils.planning.device_info import BadSetting, DeviceModel
from ...module_utils.planning.pool.device_classes import first_error
from ...module_utils.planning.scheduling.cel.parser import UnsupportedExpression
from ...module_utils.planning.scheduling.filters.dynamic_resources.catalogue import Catalogue
from ...module_utils.planning.settings import Settings
from .findings import Case, Finding, ok, stop, warn


def settings(case: Case) -> Settings | None:
    """Return the relevant settings, or None without a valid table of models."""
    config = case.plan.get("config") or {}
    known = {key: config[key] for key in ("device_info", "device_classes", "handover_models") if key in config}
    try:
        return Settings.from_dict(known)
    except BadSetting:
        return None


def direct_models(case: Case) -> tuple[str, ...]:
    """Return the models with the handover direct, by the configuration."""
    found = settings(case)
    return found.direct_models if found else ()


def selectors_and_pools(case: Case) -> Iterator[Finding]:
    """Check that no DeviceClass or request fails on a device of a pool and stops the scheduler.

    The publisher refuses a model that fails a class of ``device_classes``. Other classes fail only
    their own users.
    """
    found = settings(case)
    if found is None:
        return
    classes: dict[str, list[str]] = dict(case.cluster.get("class_selectors") or {})
    faults = list(_class_faults(found, classes)) + list(_request_faults(found, classes, case.listed("requests")))
    yield from faults
    if not faults and classes:
        yield ok("selectors and pools", f"{len(classes)} DeviceClasses can judge the devices of the pools")


def _class_faults(found: Settings, classes: dict[str, list[str]]) -> Iterator[Finding]:
    for name, selectors in sorted(classes.items()):
        for model in found.models:
            if error := first_error(selectors, model):
                served = name in found.device_classes
                said = f"DeviceClass {name} would fail on pools of {model.cdi_model_name}: {error}"
                if served:
                    yield stop("selectors and pools", said, _change(model, error))
                else:
                    yield warn("selectors and pools", said, _change(model, error))


def _request_faults(found: Settings, classes: dict[str, list[str]], requests: t.Iterable[t.Any]) -> Iterator[Finding]:
    for request in requests:
        of_class = classes.get(request["class"])
        for model in found.models if of_class is not None else ():
            if not first_error(of_class or (), model) and (
                    error := first_error([*(of_class or ()), *request["selectors"]], model)):
                said = f"A request of {request['object']} would fail on pools of {model.cdi_model_name}: {error}"
                change = f"{_change(model, error)}, or guard it in the selector with has()"
                yield warn("selectors and pools", said, change)


def _change(model: DeviceModel, error: str) -> str:
    return f"Add {error.rpartition(' ')[2]} to the dra-attributes of {model.cdi_model_name} in device_info"


def selectors_and_drivers(case: Case) -> Iterator[Finding]:
    """Check that pods find devices of both drivers while nodes move between drivers.

    They need a suitable class and suitable requests. Selectors on attributes that ``device_info``
    does not name cannot be judged and are not reported.
    """
    found = settings(case)
    for model in found.models if found else ():
        if found and model.other_driver_names:
            yield from _of_model(model, found, case)


def _of_model(model: DeviceModel, found: Settings, case: Case) -> Iterator[Finding]:
    classes: dict[str, list[str]] = dict(case.cluster.get("class_selectors") or {})
    accepted = f"{model.cdi_model_name} by {' and '.join(model.drivers)}"
    good = [name for name in found.device_classes if name in classes
            and {*_answers(classes[name], model).values()} in ({True}, {None})]
    if good:
        yield ok("selectors and drivers", f"DeviceClass {good[0]} accepts {accepted}")
    else:
        change = f"Make one with the selector device.driver in {[*model.drivers]}, and name it in device_classes"
        yield warn("selectors and drivers", f"no DeviceClass of device_classes accepts {accepted}", change)
    for request in case.listed("requests"):
        answers = _answers([*classes.get(request["class"], ()), *request["selectors"]], model)
        no = [driver for driver, answer in answers.items() if not answer]
        if request["class"] in good and no and len(no) < len(answers):
            said = f"A request of {request['object']} accepts {model.cdi_model_name}, but not by {', '.join(no)}"
            yield warn("selectors and drivers", said, "Read its attributes by device.attributes[device.driver]")


def _answers(selectors: t.Iterable[str], model: DeviceModel) -> dict[str, bool | None]:
    """Return by driver whether selectors accept a device of the model, or None if unknown."""
    try:
        return Catalogue((model,), {}).satisfies_by_driver(model.cdi_model_name, tuple(selectors))
    except UnsupportedExpression:
        return dict.fromkeys(model.drivers)


RULES = (selectors_and_pools, selectors_and_drivers)
