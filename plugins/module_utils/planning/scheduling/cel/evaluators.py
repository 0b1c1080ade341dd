# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The functions to which each part of a CEL expression is compiled: from the known facts of a
device to a value.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from . import values
from .values import UNKNOWN, DeviceFacts, DeviceField, Failed

Evaluator = Callable[[DeviceFacts], t.Any]


class _Missing(values.Failed):
    """A value that the device lacks, which is an error in CEL."""

    __slots__ = ()


class _Absent(values.Unknown):
    """A missing value that was selected as an optional. ``orValue`` replaces it."""

    __slots__ = ()


def constant(value: t.Any) -> Evaluator:
    """Evaluate a literal."""
    return lambda _device: value


def joined(join: Callable[[t.Any, Callable[[], t.Any]], t.Any], left: Evaluator, right: Evaluator) -> Evaluator:
    """Evaluate ``&&`` or ``||``."""
    return lambda device: join(left(device), lambda: right(device))


def conditional(test: Evaluator, yes: Evaluator, no: Evaluator) -> Evaluator:
    """Evaluate ``test ? yes : no``."""
    def evaluate(device: DeviceFacts) -> t.Any:
        answer = test(device)
        if isinstance(answer, bool):
            return (yes if answer else no)(device)
        return answer if isinstance(answer, Failed) else UNKNOWN

    return evaluate


def negated(value: t.Any) -> t.Any:
    """Apply ``!`` to a value."""
    if isinstance(value, Failed):
        return value
    return not value if isinstance(value, bool) else UNKNOWN


def present(value: t.Any) -> t.Any:
    """Apply ``has()`` to a value."""
    if isinstance(value, (_Missing, _Absent)):
        return False
    return UNKNOWN if isinstance(value, values.Unknown) and not value.non_empty_text else True


def related(operator: str, left: Evaluator, right: Evaluator) -> Evaluator:
    """Evaluate a relation such as ``==``, ``in`` or ``<``."""
    def evaluate(device: DeviceFacts) -> t.Any:
        one, other = left(device), right(device)
        if error := next((each for each in (one, other) if isinstance(each, Failed)), None):
            return error
        if operator == "in":
            return _inside(one, other, device)
        if operator in ("==", "!="):
            same = values.equal(one, other)
            return same if operator == "==" else negated(same)
        return values.ordered(operator, one, other)

    return evaluate


def _inside(item: t.Any, items: t.Any, device: DeviceFacts) -> t.Any:
    if isinstance(items, list):
        return values.contained(item, items)
    if isinstance(items, DeviceField) and items.domain is not None and isinstance(item, str):
        return present(_field(items, item, device, optional=False))
    return UNKNOWN


def selected(target: Evaluator, key: Evaluator, *, optional: bool) -> Evaluator:
    """Evaluate ``target.name`` or ``target["name"]``, with ``?`` as an optional."""
    return lambda device: _field(target(device), key(device), device, optional=optional)


def _field(target: t.Any, name: t.Any, device: DeviceFacts, *, optional: bool) -> t.Any:
    if not isinstance(target, DeviceField) or not isinstance(name, str):
        return UNKNOWN
    if target.kind == "device":
        if name == "driver":
            return device.driver
        return DeviceField(name) if name in ("attributes", "capacity") else UNKNOWN
    if target.domain is None:
        return DeviceField(target.kind, name)
    found = device.find(target.kind, f"{target.domain}/{name}")
    if found is None:
        return _Absent() if optional else _Missing(f"no such key: {name}")
    return found


def called(name: str, target: Evaluator, arguments: list[Evaluator]) -> Evaluator:
    """Evaluate a method call."""
    def evaluate(device: DeviceFacts) -> t.Any:
        value, given = target(device), [a(device) for a in arguments]
        if name == "orValue" and len(given) == 1:
            return given[0] if isinstance(value, _Absent) else value
        if error := next((each for each in (value, *given) if isinstance(each, Failed)), None):
            return error
        return values.call_method(name, value, given)

    return evaluate
