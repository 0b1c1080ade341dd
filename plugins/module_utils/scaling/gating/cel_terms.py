# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each piece of a CEL selector becomes: a function that takes the facts of a device and gives a value."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from . import cel_values as values
from .cel_values import UNKNOWN, DeviceFacts, Group

Term = Callable[[DeviceFacts], t.Any]


class _Missing(values.Unknown):
    """The error of a value that is not there; ``optional``: no error, ``orValue`` replaces it."""

    __slots__ = ("optional",)

    def __init__(self, optional: bool) -> None:
        super().__init__()
        self.optional = optional


def constant(value: t.Any) -> Term:
    """A literal."""
    return lambda _device: value


def joined(join: Callable[[t.Any, Callable[[], t.Any]], t.Any], left: Term, right: Term) -> Term:
    """``&&`` or ``||``."""
    return lambda device: join(left(device), lambda: right(device))


def conditional(test: Term, yes: Term, no: Term) -> Term:
    """``test ? yes : no``."""
    def term(device: DeviceFacts) -> t.Any:
        answer = test(device)
        return UNKNOWN if not isinstance(answer, bool) else (yes if answer else no)(device)

    return term


def negated(value: t.Any) -> t.Any:
    """``!`` of a value."""
    return not value if isinstance(value, bool) else UNKNOWN


def present(value: t.Any) -> t.Any:
    """``has()`` of a value."""
    if isinstance(value, _Missing):
        return False
    return UNKNOWN if isinstance(value, values.Unknown) and not value.filled else True


def related(operator: str, left: Term, right: Term) -> Term:
    """A relation: ``==``, ``in``, ``<`` …"""
    def term(device: DeviceFacts) -> t.Any:
        one, other = left(device), right(device)
        if operator == "in":
            return _inside(one, other, device)
        if operator in ("==", "!="):
            same = values.equal(one, other)
            return same if operator == "==" else negated(same)
        return values.ordered(operator, one, other)

    return term


def _inside(item: t.Any, items: t.Any, device: DeviceFacts) -> t.Any:
    if isinstance(items, list):
        return values.contained(item, items)
    if isinstance(items, Group) and items.domain is not None and isinstance(item, str):
        return present(_field(items, item, device, optional=False))
    return UNKNOWN


def selected(term: Term, key: Term, *, optional: bool) -> Term:
    """``target.name`` or ``target["name"]``, with ``?`` an optional."""
    return lambda device: _field(term(device), key(device), device, optional=optional)


def _field(target: t.Any, name: t.Any, device: DeviceFacts, *, optional: bool) -> t.Any:
    if not isinstance(target, Group) or not isinstance(name, str):
        return UNKNOWN
    if target.kind == "device":
        return device.driver if name == "driver" else _part(name)
    if target.domain is None:
        return Group(target.kind, name)
    found = device.find(target.kind, f"{target.domain}/{name}")
    if optional and found is not None:
        return found
    return _Missing(optional) if found is None else found


def _part(name: str) -> t.Any:
    return Group(name) if name in ("attributes", "capacity") else UNKNOWN


def called(name: str, target: Term, arguments: list[Term]) -> Term:
    """A method call."""
    def term(device: DeviceFacts) -> t.Any:
        value, given = target(device), [a(device) for a in arguments]
        if name == "orValue" and len(given) == 1:
            return given[0] if isinstance(value, _Missing) and value.optional else value
        return values.call(name, value, given)

    return term
