# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which devices a request may get: its class's and its own selectors, on devices seen and on devices to be attached."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ..settings import DeviceModel
from .cel import Unreadable, reader
from .cel_values import SOME_TEXT, UNKNOWN, DeviceFacts, version
from .quantity import BadQuantity, quantity
from .selectors import untolerated
from .view import Json

OWN = frozenset({"uuid", "parentUUID", "serial", "index", "minor", "pciBusID", "pcieRoot", "pciAddress", "numaNode",
                 "numa"})
"""Attributes that tell devices of one model from each other, or where they are plugged in."""
Expressions = tuple[str, ...]


def seen(device: Json, driver: str) -> DeviceFacts:
    """A device of a ResourceSlice: what it does not name is not there."""
    return DeviceFacts(driver, _values(device.get("attributes") or {}, driver, _attribute),
                       _values(device.get("capacity") or {}, driver, _capacity), complete=True)


def _values(listed: Mapping[str, t.Any], driver: str, read: t.Callable[[t.Any], t.Any]) -> dict[str, t.Any]:
    return {name if "/" in name else f"{driver}/{name}": read(value) for name, value in listed.items()}


def _attribute(value: Mapping[str, t.Any]) -> t.Any:
    for kind in ("string", "bool", "int"):
        if kind in value:
            return value[kind]
    return version(str(value["version"])) if "version" in value else UNKNOWN


def _capacity(value: Mapping[str, t.Any]) -> t.Any:
    try:
        return quantity(str(value["value"]))
    except (BadQuantity, KeyError):
        return UNKNOWN


def expected(model: DeviceModel, samples: tuple[Json, ...]) -> DeviceFacts:
    """A device of the model that will be attached: what all devices seen have in common, else what is configured."""
    driver = model.driver_name
    if not samples:
        known = _values(model.attributes, driver, lambda value: value)
        known[f"{driver}/uuid"] = SOME_TEXT
        return DeviceFacts(driver, known, {}, complete=False)
    facts = [seen(sample, driver) for sample in samples]
    attributes = {name: UNKNOWN if name.rpartition("/")[2] in OWN else value
                  for name, value in _common([f.attributes for f in facts]).items()}
    attributes[f"{driver}/uuid"] = SOME_TEXT
    return DeviceFacts(driver, attributes, _common([f.capacity for f in facts]), complete=True)


def _common(several: list[Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Values that all have; where they differ, or one lacks it, nothing is known."""
    found: dict[str, t.Any] = {}
    for name in {name for each in several for name in each}:
        values = [each.get(name) for each in several]
        same = all(v is not None and v.__class__ is values[0].__class__ and v == values[0] for v in values)
        found[name] = values[0] if same else UNKNOWN
    return found


def shared(device: Json) -> bool:
    """Whether the device is one that several claims, or partitions, may use at a time: those are not counted on."""
    return bool(device.get("allowMultipleAllocations") or device.get("consumesCounters"))


def refused(device: Json, tolerations: t.Iterable[Json]) -> bool:
    """Whether a taint of the device keeps the request away."""
    return untolerated(device.get("taints") or (), tolerations) is not None


def unreadable(expressions: Expressions) -> str:
    """Why one of the expressions cannot be read; empty when all can."""
    for expression in expressions:
        try:
            reader(expression)
        except Unreadable as error:
            return f"selector {expression!r} is outside what is judged: {error}"
    return ""


class Catalogue:
    """The models that can be attached, and the answers of selectors: each is asked once of a model and of a device."""

    def __init__(self, models: tuple[DeviceModel, ...], samples: Mapping[str, tuple[Json, ...]],
                 excluded: frozenset[str] = frozenset()) -> None:
        self.models = {m.cdi_model_name: m for m in models}
        self.excluded = excluded
        self.usable = tuple(name for name in self.models if name not in excluded)
        self._samples = samples
        self._expected: dict[str, DeviceFacts] = {}
        self._answers: dict[tuple[str, Expressions], bool | None] = {}
        self._seen: dict[int, tuple[Json, DeviceFacts]] = {}
        self._of_devices: dict[tuple[int, Expressions], bool | None] = {}

    def knows(self, models: tuple[DeviceModel, ...], samples: Mapping[str, tuple[Json, ...]],
              excluded: frozenset[str] = frozenset()) -> bool:
        """Whether it was made from the same."""
        same = all(len(new) == len(old) and all(a is b for a, b in zip(old, new, strict=True))
                   for name in {*samples, *self._samples}
                   for old, new in [(self._samples.get(name, ()), samples.get(name, ()))])
        equal = models == tuple(self.models.values()) and excluded == self.excluded
        return same and equal

    def forget(self, most: int) -> None:
        """Drop what is known of single devices when there are too many: most of them are gone."""
        if len(self._seen) > most:
            self._seen.clear()
            self._of_devices.clear()

    def facts(self, model: str) -> DeviceFacts:
        """What is known of a device of the model that will be attached."""
        if model not in self._expected:
            self._expected[model] = expected(self.models[model], self._samples.get(model, ()))
        return self._expected[model]

    def fits_model(self, model: str, expressions: Expressions) -> bool | None:
        """Whether a device of the model to be attached satisfies all expressions; None when it cannot be said."""
        key = (model, expressions)
        if key not in self._answers:
            self._answers[key] = holds(expressions, self.facts(model))
        return self._answers[key]

    def fits_device(self, device: Json, model: str, expressions: Expressions) -> bool | None:
        """Whether a device that is there satisfies all expressions; None when it cannot be said."""
        key = (id(device), expressions)
        if key not in self._of_devices:
            self._of_devices[key] = holds(expressions, self.facts_of(device, model))
        return self._of_devices[key]

    def facts_of(self, device: Json, model: str) -> DeviceFacts:
        """What is known of a device that is there; it is kept with its facts, so that its id stays its own."""
        if id(device) not in self._seen:
            self._seen[id(device)] = (device, seen(device, self.models[model].driver_name))
        return self._seen[id(device)][1]


def holds(expressions: Expressions, facts: DeviceFacts) -> bool | None:
    """All expressions, in order, as the scheduler asks them: the first that is false ends it."""
    for expression in expressions:
        answer = reader(expression)(facts)
        if answer is not True:
            return answer
    return True
