# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The models and the single devices that satisfy the selectors of a request."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ....settings import DeviceModel
from ...cel.parser import compile_expression
from ...cel.values import NON_EMPTY_TEXT, DeviceFacts, Unknown
from ...demand import Expressions
from ...snapshot import IdleDevice, Json
from .devices import announced_device, expected_device, same_facts

Answers = dict[Expressions, "bool | None"]
Samples = Mapping[tuple[str, str], tuple[Json, ...]]
"""Entries of ResourceSlices, by model and DRA driver."""


@dataclass(frozen=True, slots=True)
class _AnnouncedDevice:
    """A device with the results so far. ``raw`` stays referenced so that no other object gets its
    id.
    """

    raw: Json
    facts: DeviceFacts
    answers: Answers = field(default_factory=dict)


class Catalogue:
    """Results of selectors, each computed once. Valid for one ``device_info`` and one set of
    samples.

    An empty driver stands for the driver of the model's pools.
    """

    def __init__(self, models: tuple[DeviceModel, ...], samples: Samples,
                 excluded: frozenset[str] = frozenset()) -> None:
        self.models = {m.cdi_model_name: m for m in models}
        self.excluded = excluded
        self.usable = tuple(name for name in self.models if name not in excluded)
        self._samples = dict(samples)
        self._expected: dict[tuple[str, str], DeviceFacts] = {}
        self._model_answers: dict[tuple[str, str, Expressions], bool | None] = {}
        self._devices: dict[tuple[int, bool, str], _AnnouncedDevice] = {}

    def copy(self) -> Catalogue:
        """Return an independent copy. Cached values are shared, since they never change."""
        other = Catalogue(tuple(self.models.values()), self._samples, self.excluded)
        other._expected = self._expected.copy()
        other._model_answers = self._model_answers.copy()
        other._devices = self._devices.copy()
        return other

    def made_from(self, models: tuple[DeviceModel, ...], samples: Samples,
                  excluded: frozenset[str] = frozenset()) -> bool:
        """Return whether one that is made from these values has the same results."""
        return (models == tuple(self.models.values()) and excluded == self.excluded
                and all(self._shows_the_same(key, samples.get(key, ())) for key in {*samples, *self._samples}))

    def _shows_the_same(self, key: tuple[str, str], samples: tuple[Json, ...]) -> bool:
        """Return whether these devices have in common what the samples of before had."""
        before, (model, driver) = self._samples.get(key, ()), key
        if len(before) == len(samples) and all(map(operator.is_, before, samples)):
            return True
        if model not in self.models:
            return before == samples
        return same_facts(self.expected(model, driver), expected_device(self.models[model], driver, samples))

    def forget_devices(self, limit: int) -> None:
        """Forget all single devices if more than ``limit`` are known. Most of them are gone."""
        if len(self._devices) > limit:
            self._devices.clear()

    def expected(self, model: str, driver: str = "") -> DeviceFacts:
        """Return the known facts of a device of the model that is to be attached."""
        key = model, driver or self.models[model].driver_name
        if key not in self._expected:
            self._expected[key] = expected_device(self.models[model], key[1], self._samples.get(key, ()))
        return self._expected[key]

    def attribute(self, device: IdleDevice, model: str, name: str) -> object:
        """Return an attribute of a device that is in a ResourceSlice."""
        found = self._announced(device, model).facts.find("attributes", name)
        return self._whole(device, model).find("attributes", name) if isinstance(found, Unknown) else found

    def model_satisfies(self, model: str, expressions: Expressions, driver: str = "") -> bool | None:
        """Return whether a device of the model to be attached satisfies all expressions, None if
        unknown.
        """
        key = (model, driver, expressions)
        if key not in self._model_answers:
            self._model_answers[key] = _all_hold(expressions, self.expected(model, driver))
        return self._model_answers[key]

    def satisfies_by_driver(self, model: str, expressions: Expressions) -> dict[str, bool | None]:
        """Return the same for each driver that may publish the model's devices."""
        return {driver: self.model_satisfies(model, expressions, driver) for driver in self.models[model].drivers}

    def device_satisfies(self, device: IdleDevice, model: str, expressions: Expressions) -> bool | None:
        """Return whether a device in a ResourceSlice satisfies all expressions, None if unknown."""
        known = self._announced(device, model)
        if expressions not in known.answers:
            known.answers[expressions] = _all_hold(expressions, known.facts)
        answer = known.answers[expressions]
        return _all_hold(expressions, self._whole(device, model)) if answer is None and device.uuid else answer

    def _announced(self, device: IdleDevice, model: str) -> _AnnouncedDevice:
        """Return the facts of all devices with this entry. If they differ by UUID, the UUID is
        unknown here.
        """
        driver = self._driver(device, model)
        key = (id(device.device), bool(device.uuid), driver)
        known = self._devices.get(key)
        if known is None:
            facts = announced_device(device.device, driver)
            if device.uuid:
                facts = replace(facts, attributes={**facts.attributes, f"{driver}/uuid": NON_EMPTY_TEXT})
            known = self._devices[key] = _AnnouncedDevice(device.device, facts)
        return known

    def _whole(self, device: IdleDevice, model: str) -> DeviceFacts:
        """Return the facts of this single device."""
        facts = self._announced(device, model).facts
        own = {f"{self._driver(device, model)}/uuid": device.uuid} if device.uuid else {}
        return replace(facts, attributes={**facts.attributes, **own})

    def _driver(self, device: IdleDevice, model: str) -> str:
        return device.driver or self.models[model].driver_name


def _all_hold(expressions: Expressions, facts: DeviceFacts) -> bool | None:
    """Evaluate the expressions in kube-scheduler's order. The first that is not True decides."""
    for expression in expressions:
        answer = compile_expression(expression)(facts)
        if answer is not True:
            return answer
    return True
