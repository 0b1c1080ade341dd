# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of CEL selectors, with one more: unknown, which also stands for every error, so that a reading is sound.

CEL's ``&&`` and ``||`` absorb errors just as three-valued logic absorbs the unknown.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from .quantity import BadQuantity, quantity

SEMVER = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
SAFE_PATTERN = re.compile(r"[A-Za-z0-9 _^$.*+?|()\[\]\\:/-]{1,200}")


class Unknown:
    """A value that is not known; ``filled``: it is known to be a text, and not an empty one."""

    __slots__ = ("filled",)

    def __init__(self, filled: bool = False) -> None:
        self.filled = filled


UNKNOWN, SOME_TEXT = Unknown(), Unknown(filled=True)


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A semantic version without pre-release, which is compared by its numbers."""

    numbers: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Group:
    """``device``, ``device.attributes``, ``device.capacity``, or the part of one that has a domain."""

    kind: str
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device as far as it is known, names with their domain. ``complete``: what is not named is not there."""

    driver: str
    attributes: Mapping[str, t.Any]
    capacity: Mapping[str, t.Any]
    complete: bool

    def find(self, kind: str, name: str) -> t.Any:
        """A value, None when it is not there, UNKNOWN when that is not known."""
        known = self.attributes if kind == "attributes" else self.capacity
        return known.get(name, None if self.complete else UNKNOWN)


def version(text: str) -> Version | Unknown:
    """A semantic version; one with a pre-release part is not compared here."""
    match = SEMVER.fullmatch(text)
    if match is None or match[4] or match[5]:
        return UNKNOWN
    return Version((int(match[1]), int(match[2]), int(match[3])))


def equal(left: t.Any, right: t.Any) -> t.Any:
    """CEL's ``==`` on values of one kind; between kinds the answer is not needed, so it is unknown."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Unknown):
            return False if one.filled and other == "" and isinstance(other, str) else UNKNOWN
    return left == right if comparable(left, right) else UNKNOWN


def comparable(left: t.Any, right: t.Any) -> bool:
    """Whether both are of one kind that can be compared."""
    return left.__class__ is right.__class__ and isinstance(left, (str, bool, int, Version, Fraction))


def ordered(operator: str, left: t.Any, right: t.Any) -> t.Any:
    """``<``, ``<=``, ``>`` and ``>=`` of numbers and of texts."""
    if not comparable(left, right) or isinstance(left, (bool, Version, Fraction)):
        return UNKNOWN
    answers = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
    return answers[operator]


def both(left: t.Any, right: Callable[[], t.Any]) -> t.Any:
    """``&&``."""
    if left is False:
        return False
    answer = right()
    if answer is False:
        return False
    return True if left is True and answer is True else UNKNOWN


def either(left: t.Any, right: Callable[[], t.Any]) -> t.Any:
    """``||``."""
    if left is True:
        return True
    answer = right()
    if answer is True:
        return True
    return False if left is False and answer is False else UNKNOWN


def contained(item: t.Any, items: list[t.Any]) -> t.Any:
    """``in`` a list."""
    if isinstance(item, Unknown) and not items:
        return UNKNOWN
    answers = [equal(item, each) for each in items]
    if True in answers:
        return True
    return False if all(a is False for a in answers) else UNKNOWN


def call(name: str, target: t.Any, arguments: list[t.Any]) -> t.Any:
    """A method of a value; one that is not known here gives the unknown."""
    if isinstance(target, str) and target.isascii() and not arguments and name in ("lowerAscii", "upperAscii"):
        return target.lower() if name == "lowerAscii" else target.upper()
    if isinstance(target, (str, list)) and not arguments and name == "size":
        return len(target)
    if len(arguments) != 1:
        return UNKNOWN
    argument = arguments[0]
    if isinstance(target, str) and isinstance(argument, str):
        return _of_texts(name, target, argument)
    if isinstance(target, (Version, Fraction)) and comparable(target, argument):
        return _of_sizes(name, target, argument)
    return UNKNOWN


def _of_texts(name: str, target: str, argument: str) -> t.Any:
    if name == "startsWith":
        return target.startswith(argument)
    if name == "endsWith":
        return target.endswith(argument)
    if name == "contains":
        return argument in target
    return _matches(target, argument) if name == "matches" else UNKNOWN


def _matches(text: str, pattern: str) -> t.Any:
    """RE2's search for patterns that mean the same here and cannot take long: no repeated group, few repetitions."""
    plain = re.sub(r"\\[dws.\-/$^|()\[\]*+?\\]", "a", pattern)
    if not SAFE_PATTERN.fullmatch(pattern) or re.search(r"\)[*+?]|\(\?|\\|[*+?][*+?]|\[[\[:]", plain):
        return UNKNOWN
    if sum(plain.count(c) for c in "*+?") > 3 or "\n" in text:
        return UNKNOWN
    try:
        return re.search(pattern, text, re.ASCII) is not None
    except re.error:
        return UNKNOWN


def _of_sizes(name: str, target: t.Any, argument: t.Any) -> t.Any:
    if name == "compareTo":
        return (target > argument) - (target < argument)
    if name == "isGreaterThan":
        return target > argument
    return target < argument if name == "isLessThan" else UNKNOWN


def construct(name: str, arguments: list[t.Any]) -> t.Any:
    """``quantity("40Gi")`` and ``semver("1.2.3")``; other functions give the unknown."""
    if len(arguments) == 1 and isinstance(arguments[0], str):
        if name == "semver":
            return version(arguments[0])
        if name == "quantity":
            try:
                return quantity(arguments[0])
            except BadQuantity:
                return UNKNOWN
    return UNKNOWN
