# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read one request of a ResourceClaim: the models that satisfy it, in their alternatives.

As ``validateDeviceRequest`` of ``k8s.io/dynamic-resource-allocation/structured``, but models stand
for devices.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...cel.parser import UnsupportedExpression, compile_expression
from ...demand import Alternative, Expressions
from ...snapshot import Json
from .catalogue import Catalogue
from .devices import PLACE

EXACT_COUNT = "ExactCount"


class Unsupported(Exception):
    """A pod or a claim uses an unsupported feature. The message names the feature."""


class NoModel(Unsupported):
    """All of the request is understood, and no model can ever satisfy it."""


class RequestReader:
    """Reads requests.

    ``served``: names of the DeviceClasses that the fabric serves. ``classes``: raw, by name.
    ``more``: models that count beside the usable ones of the catalogue.
    """

    def __init__(self, catalogue: Catalogue, served: frozenset[str], classes: Mapping[str, Json],
                 more: frozenset[str] = frozenset()) -> None:
        self.catalogue, self.served, self.classes = catalogue, served, classes
        self._models = tuple(name for name in catalogue.models if name in catalogue.usable or name in more)

    def alternatives(self, request: Json) -> tuple[Alternative, ...]:
        """Return the alternatives before the first unsupported one, which decides whether later
        ones are tried.

        Raise Unsupported if there is none, NoModel if that is certain.
        """
        listed = [request["exactly"]] if request.get("exactly") else request.get("firstAvailable") or []
        found: list[Alternative] = []
        for raw in listed:
            try:
                alternative = self._alternative(raw)
            except Unsupported:
                if not found:
                    raise
                break
            if alternative is not None:
                found.append(alternative)
        if not found:
            raise NoModel("no model of device_info satisfies it")
        return tuple(found)

    def _alternative(self, raw: Json) -> Alternative | None:
        """Return the alternative, None if no model can ever satisfy it. Raise Unsupported."""
        self._check(raw)
        expressions = self._expressions(raw)
        answers = {m: self._answer(m, expressions) for m in self._models}
        models = tuple(sorted(m for m, answer in answers.items() if answer))
        attachable = bool(models) or None not in answers.values()
        if not attachable and not any(name in text for text in expressions for name in PLACE):
            raise Unsupported(f"it is unknown which model satisfies {expressions[-1]!r}")
        models = models if attachable else tuple(sorted(m for m, answer in answers.items() if answer is None))
        tolerations = tuple(tuple(sorted((k, str(v)) for k, v in e.items())) for e in raw.get("tolerations") or ())
        return Alternative(int(raw.get("count") or 1), models, expressions, tolerations,
                           attachable=attachable) if models else None

    def _answer(self, model: str, expressions: Expressions) -> bool | None:
        """Return whether a device of the model satisfies the expressions with one of its drivers,
        None if unknown.
        """
        answers = [*self.catalogue.satisfies_by_driver(model, expressions).values()]
        return True if True in answers else None if None in answers else False

    def _check(self, raw: Json) -> None:
        name = raw["deviceClassName"]
        if raw.get("adminAccess"):
            raise Unsupported("adminAccess is not supported")
        if (raw.get("allocationMode") or EXACT_COUNT) != EXACT_COUNT:
            raise Unsupported(f"allocationMode {raw['allocationMode']} is not supported")
        if raw.get("capacity"):
            raise Unsupported("a request for capacity is not supported")
        if raw.get("derivedAttributes"):
            # KEP-6080: a constraint on their name then compares computed values, not attributes of
            # devices.
            raise Unsupported("derivedAttributes are not supported")
        if name not in self.served:
            raise Unsupported(f"the fabric does not serve DeviceClass {name}")
        if name not in self.classes:
            raise Unsupported(f"there is no DeviceClass {name}")

    def _expressions(self, raw: Json) -> Expressions:
        """Return the selectors of the class, then of the request. Raise Unsupported if one is not
        understood.
        """
        spec = self.classes[raw["deviceClassName"]].get("spec") or {}
        selectors = (*(spec.get("selectors") or ()), *(raw.get("selectors") or ()))
        expressions = tuple((each.get("cel") or {}).get("expression") or "" for each in selectors)
        for expression in expressions:
            try:
                compile_expression(expression)
            except UnsupportedExpression as error:
                raise Unsupported(f"selector {expression!r} is not supported: {error}") from None
        return expressions
