# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of CEL selectors, with the additional value "unknown" for unknown facts of a device and
for every error.

CEL's ``&&`` and ``||`` absorb errors as three-valued logic absorbs the unknown, so True and False
are always certain.

Source: the CEL language definition, "Logical Operators", and KEP-4381 for the features of
selectors.
"""

from __future__ import annotations

import math
import re
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from ..framework.quantity import BadQuantity, quantity

SEMVER = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
SAFE_PATTERN = re.compile(r"[A-Za-z0-9 _^$.*+?|()\[\]\\:/-]{1,200}")
MAX_VERSION, MAX_VERSION_NUMBER = 64, 2**64 - 1
"""Longest version, as in the API for an attribute, and the largest number in a version."""
MAX_STEPS = 20_000
"""Most steps of the search for a pattern in the worst case."""


class Unknown:
    """An unknown value. ``non_empty_text``: the value is known to be a text that is not empty."""

    __slots__ = ("non_empty_text",)

    def __init__(self, non_empty_text: bool = False) -> None:
        self.non_empty_text = non_empty_text


UNKNOWN, NON_EMPTY_TEXT = Unknown(), Unknown(non_empty_text=True)


class Failed(Unknown):
    """A certain error, whatever other facts are unknown. ``reason`` is in CEL's words."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A semantic version without pre-release, compared by its numbers."""

    numbers: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class DeviceField:
    """``device``, ``device.attributes`` or ``device.capacity``. The latter two may have a selected
    domain.
    """

    kind: str
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The known facts of a device. Names of attributes and capacities have their domain.

    ``complete``: the device has nothing but these facts. Otherwise it may have more.
    """

    driver: str
    attributes: Mapping[str, t.Any]
    capacity: Mapping[str, t.Any]
    complete: bool

    def find(self, kind: str, name: str) -> t.Any:
        """Return a value of ``attributes`` or ``capacity``, None if the device lacks it, UNKNOWN if
        that is unknown.
        """
        known = self.attributes if kind == "attributes" else self.capacity
        return known.get(name, None if self.complete else UNKNOWN)


def version(text: str) -> Version | Unknown:
    """Return a semantic version, UNKNOWN for one with a pre-release or build part, which is not
    compared here.
    """
    match = SEMVER.fullmatch(text) if len(text) <= MAX_VERSION else None
    if match is None or match[4] or match[5]:
        return UNKNOWN
    numbers = int(match[1]), int(match[2]), int(match[3])
    return Version(numbers) if max(numbers) <= MAX_VERSION_NUMBER else UNKNOWN


def equal(left: t.Any, right: t.Any) -> t.Any:
    """Apply CEL's ``==`` to values of one type. The result is unknown between types."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Unknown):
            return False if one.non_empty_text and other == "" and isinstance(other, str) else UNKNOWN
    return left == right if comparable(left, right) else UNKNOWN


def comparable(left: t.Any, right: t.Any) -> bool:
    """Return whether both values are of one type that can be compared."""
    return left.__class__ is right.__class__ and isinstance(left, (str, bool, int, Version, Fraction))


def ordered(operator: str, left: t.Any, right: t.Any) -> t.Any:
    """Apply ``<``, ``<=``, ``>`` or ``>=`` to numbers or texts."""
    if not comparable(left, right) or isinstance(left, (bool, Version, Fraction)):
        return UNKNOWN
    answers = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
    return answers[operator]


def logical_and(left: t.Any, right: Callable[[], t.Any]) -> t.Any:
    """Apply ``&&``."""
    if left is False:
        return False
    answer = right()
    if answer is False:
        return False
    return True if left is True and answer is True else undecided(left, answer)


def logical_or(left: t.Any, right: Callable[[], t.Any]) -> t.Any:
    """Apply ``||``."""
    if left is True:
        return True
    answer = right()
    if answer is True:
        return True
    return False if left is False and answer is False else undecided(left, answer)


def undecided(*operands: t.Any) -> Unknown:
    """Return an error if an operand is one and no other is merely unknown, else UNKNOWN.

    An unknown operand could still decide the result.
    """
    errors = [o for o in operands if isinstance(o, Failed)]
    return errors[0] if errors and all(isinstance(o, (bool, Failed)) for o in operands) else UNKNOWN


def contained(item: t.Any, items: list[t.Any]) -> t.Any:
    """Apply ``in`` to a list."""
    if isinstance(item, Unknown) and not items:
        return UNKNOWN
    answers = [equal(item, each) for each in items]
    if True in answers:
        return True
    return False if all(a is False for a in answers) else UNKNOWN


def call_method(name: str, target: t.Any, arguments: list[t.Any]) -> t.Any:
    """Call a method of a value. Return UNKNOWN for an unsupported method."""
    if isinstance(target, str) and target.isascii() and not arguments and name in ("lowerAscii", "upperAscii"):
        return target.lower() if name == "lowerAscii" else target.upper()
    if isinstance(target, (str, list)) and not arguments and name == "size":
        return len(target)
    if len(arguments) != 1:
        return UNKNOWN
    argument = arguments[0]
    if isinstance(target, str) and isinstance(argument, str):
        return _text_method(name, target, argument)
    if isinstance(target, (Version, Fraction)) and comparable(target, argument):
        return _comparison_method(name, target, argument)
    return UNKNOWN


def _text_method(name: str, target: str, argument: str) -> t.Any:
    if name == "startsWith":
        return target.startswith(argument)
    if name == "endsWith":
        return target.endswith(argument)
    if name == "contains":
        return argument in target
    return _matches(target, argument) if name == "matches" else UNKNOWN


def _matches(text: str, pattern: str) -> t.Any:
    """Search a pattern as RE2 does, if it means the same in Python and ends soon.

    Such a pattern has no repeated group and few repetitions.
    """
    plain = re.sub(r"\\[dws.\-/$^|()\[\]*+?\\]", "a", pattern)
    if not SAFE_PATTERN.fullmatch(pattern) or re.search(r"\)[*+?]|\(\?|\\|[*+?][*+?]|\[[\[:]", plain):
        return UNKNOWN
    if "\n" in text or _worst(plain, len(text)) > MAX_STEPS:
        return UNKNOWN
    try:
        return re.search(pattern, text, re.ASCII) is not None
    except re.error:
        return UNKNOWN


def _worst(pattern: str, length: int) -> int:
    """Return the most steps of Python's search: each repetition and each start divide the text
    again.
    """
    repetitions = sum(pattern.count(c) for c in "*+?")
    return int(math.comb(length + repetitions + 1, repetitions + 1) * 2 ** pattern.count("|"))


def _comparison_method(name: str, target: t.Any, argument: t.Any) -> t.Any:
    if name == "compareTo":
        return (target > argument) - (target < argument)
    if name == "isGreaterThan":
        return target > argument
    return target < argument if name == "isLessThan" else UNKNOWN


def call_function(name: str, arguments: list[t.Any]) -> t.Any:
    """Evaluate ``quantity("40Gi")`` or ``semver("1.2.3")``. Return UNKNOWN for an invalid text."""
    if len(arguments) == 1 and isinstance(arguments[0], str):
        if name == "semver":
            return version(arguments[0])
        if name == "quantity":
            try:
                return quantity(arguments[0])
            except BadQuantity:
                return UNKNOWN
    return UNKNOWN
