# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of CEL selectors, with one more: unknown. It stands for what is not known of a device, and for every error.

CEL's ``&&`` and ``||`` absorb errors as three-valued logic absorbs the unknown, so True and False are always certain.
Source: the CEL language definition, "Logical Operators", and KEP-4381 for what selectors may use.
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
"""Length of a version, as the API bounds that of an attribute; and of each of its numbers."""
MAX_STEPS = 20_000
"""Of the search for a pattern, at worst."""


class Unknown:
    """A value that is not known; ``non_empty_text``: it is known to be a text that is not empty."""

    __slots__ = ("non_empty_text",)

    def __init__(self, non_empty_text: bool = False) -> None:
        self.non_empty_text = non_empty_text


UNKNOWN, NON_EMPTY_TEXT = Unknown(), Unknown(non_empty_text=True)


class Failed(Unknown):
    """An error for certain, whatever else is not known; ``reason`` is in CEL's words."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A semantic version without pre-release, which is compared by its numbers."""

    numbers: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class DeviceField:
    """``device``, ``device.attributes`` or ``device.capacity``; the latter two also with a domain selected in them."""

    kind: str
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What is known of a device. Names of attributes and capacities have their domain.

    ``complete``: the device has nothing but what is named here; else it may have more.
    """

    driver: str
    attributes: Mapping[str, t.Any]
    capacity: Mapping[str, t.Any]
    complete: bool

    def find(self, kind: str, name: str) -> t.Any:
        """A value of ``attributes`` or ``capacity``; None when the device lacks it, UNKNOWN when that is not known."""
        known = self.attributes if kind == "attributes" else self.capacity
        return known.get(name, None if self.complete else UNKNOWN)


def version(text: str) -> Version | Unknown:
    """A semantic version; unknown when it has a pre-release or build part, which is not compared here."""
    match = SEMVER.fullmatch(text) if len(text) <= MAX_VERSION else None
    if match is None or match[4] or match[5]:
        return UNKNOWN
    numbers = int(match[1]), int(match[2]), int(match[3])
    return Version(numbers) if max(numbers) <= MAX_VERSION_NUMBER else UNKNOWN


def equal(left: t.Any, right: t.Any) -> t.Any:
    """CEL's ``==`` on values of one type; between types it is unknown."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Unknown):
            return False if one.non_empty_text and other == "" and isinstance(other, str) else UNKNOWN
    return left == right if comparable(left, right) else UNKNOWN


def comparable(left: t.Any, right: t.Any) -> bool:
    """Whether both are of one type that can be compared."""
    return left.__class__ is right.__class__ and isinstance(left, (str, bool, int, Version, Fraction))


def ordered(operator: str, left: t.Any, right: t.Any) -> t.Any:
    """``<``, ``<=``, ``>`` and ``>=`` of numbers and of texts."""
    if not comparable(left, right) or isinstance(left, (bool, Version, Fraction)):
        return UNKNOWN
    answers = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
    return answers[operator]


def logical_and(left: t.Any, right: Callable[[], t.Any]) -> t.Any:
    """``&&``."""
    if left is False:
        return False
    answer = right()
    if answer is False:
        return False
    return True if left is True and answer is True else undecided(left, answer)


def logical_or(left: t.Any, right: Callable[[], t.Any]) -> t.Any:
    """``||``."""
    if left is True:
        return True
    answer = right()
    if answer is True:
        return True
    return False if left is False and answer is False else undecided(left, answer)


def undecided(*operands: t.Any) -> Unknown:
    """An error when one of them is and none is merely unknown, which might yet decide; else UNKNOWN."""
    errors = [o for o in operands if isinstance(o, Failed)]
    return errors[0] if errors and all(isinstance(o, (bool, Failed)) for o in operands) else UNKNOWN


def contained(item: t.Any, items: list[t.Any]) -> t.Any:
    """``in`` a list."""
    if isinstance(item, Unknown) and not items:
        return UNKNOWN
    answers = [equal(item, each) for each in items]
    if True in answers:
        return True
    return False if all(a is False for a in answers) else UNKNOWN


def call_method(name: str, target: t.Any, arguments: list[t.Any]) -> t.Any:
    """A method of a value; UNKNOWN for a method that is not supported."""
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
    """RE2's search, for patterns that mean the same in Python and end soon: no repeated group, few repetitions."""
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
    """How many steps Python's search takes at worst: each repetition and each start divide the text anew."""
    repetitions = sum(pattern.count(c) for c in "*+?")
    return int(math.comb(length + repetitions + 1, repetitions + 1) * 2 ** pattern.count("|"))


def _comparison_method(name: str, target: t.Any, argument: t.Any) -> t.Any:
    if name == "compareTo":
        return (target > argument) - (target < argument)
    if name == "isGreaterThan":
        return target > argument
    return target < argument if name == "isLessThan" else UNKNOWN


def call_function(name: str, arguments: list[t.Any]) -> t.Any:
    """``quantity("40Gi")`` or ``semver("1.2.3")``; UNKNOWN for what cannot be read."""
    if len(arguments) == 1 and isinstance(arguments[0], str):
        if name == "semver":
            return version(arguments[0])
        if name == "quantity":
            try:
                return quantity(arguments[0])
            except BadQuantity:
                return UNKNOWN
    return UNKNOWN
