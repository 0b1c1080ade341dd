# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults as data. Rules decide which requests are struck, how often, and how.

::

    faults:
      seed: 7                        # by default generated, and shown by status
      profile: flaky-network         # rules by name (profiles.py), before the listed rules
      rules:
        - kind: lost_reply           # one of KINDS, with its own parameters below
          manager: cm                # which requests, by default all
          method: POST
          path: /actions/resize      # a regular expression to search for
          purpose: attach            # login, read, poll, attach, detach, change
          contains: 7e63fd31-…       # text in path, query or body
          nth: [1, 3]                # which of those requests, from 1, by default all
          times: 2                   # at most
          probability: 0.1
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..dialects.managers import MANAGERS
from ..pool.fields import Fields, SpecError
from ..pool.parts import HEALTHS
from .profiles import PROFILES

PURPOSES: t.Final = ("login", "read", "poll", "attach", "detach", "change")
DISTRIBUTIONS: t.Final = ("fixed", "uniform", "normal", "exponential")
_MATCH: t.Final = ("manager", "method", "path", "purpose", "contains", "nth", "times", "probability")

Reader = Callable[[Fields, str], t.Any]


def _seconds(fields: Fields, key: str) -> float:
    return fields.number(key, 0.0)


def _status(fields: Fields, key: str) -> int:
    value = fields.integer(key, 500)
    if not 400 <= value <= 599:
        raise SpecError(fields.at(key), f"it must be from 400 to 599, not {value}")
    return value


def _retry_after(fields: Fields, key: str) -> int | None:
    return fields.integer(key) if fields.has(key) else None


def _share(fields: Fields, key: str) -> float:
    value = fields.number(key, 0.5)
    if value >= 1:
        raise SpecError(fields.at(key), f"it must be below 1, not {value:g}")
    return value


# Every kind with its parameters. The functions in kinds.py describe the kinds.
KINDS: t.Final[Mapping[str, Mapping[str, Reader]]] = {
    "latency": {
        "seconds": _seconds, "spread": _seconds, "after": Fields.flag,
        "distribution": lambda f, key: f.one_of(key, DISTRIBUTIONS, "fixed"),
    },
    "lost_request": {},
    "lost_reply": {},
    "doubled": {},
    "status": {"status": _status, "retry_after": _retry_after, "after": Fields.flag, "html": Fields.flag},
    "revoked_token": {},
    "clock_skew": {"seconds": lambda f, key: f.signed(key)},
    "truncated": {"keep": _share},
    "not_json": {},
    "incomplete": {"keep": _share},
    "slow_drip": {"seconds": _seconds},
    "reset": {"after": Fields.flag},
    "certificate": {"publish": Fields.flag},
    "health": {"health": lambda f, key: f.one_of(key, HEALTHS, "Critical")},
    "operation_failed": {"devices": lambda f, key: f.integer(key, 1)},
    "vanish": {},
    "restart": {},
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Empty texts match everything."""

    kind: str
    manager: str = ""
    method: str = ""
    path: str = ""
    purpose: str = ""
    contains: str = ""
    nth: tuple[int, ...] = ()
    times: int | None = None
    probability: float = 1.0
    parameters: Mapping[str, t.Any] = field(default_factory=dict)

    def matches(self, manager: str, method: str, path: str, purpose: str, text: Callable[[], str]) -> bool:
        """Return whether the rule applies to a request.

        ``text``: returns its path, query and body.
        """
        for wanted, found in ((self.manager, manager), (self.method, method), (self.purpose, purpose)):
            if wanted and wanted != found:
                return False
        if self.path and not re.search(self.path, path):
            return False
        return not self.contains or self.contains in text()


@dataclass(frozen=True, slots=True)
class Faulty:
    """All rules. ``seed``: None to generate one."""

    seed: int | None = None
    rules: tuple[Rule, ...] = ()


def faults_of(top: Fields) -> Faulty:
    """Read ``faults`` of a document. Raises SpecError."""
    return faults_in(top.fields("faults", ("seed", "profile", "rules")))


def faults_in(fields: Fields) -> Faulty:
    """Read ``seed``, ``profile`` and ``rules``. Raises SpecError."""
    seed = fields.integer("seed") if fields.has("seed") else None
    named = PROFILES[fields.one_of("profile", tuple(PROFILES))] if fields.has("profile") else ()
    entries = [*named, *fields.entries("rules")]
    return Faulty(seed, tuple(_rule(entry, f"{fields.at('rules')}[{n}]") for n, entry in enumerate(entries)))


def _rule(entry: t.Any, where: str) -> Rule:
    every = {name for kind in KINDS.values() for name in kind}
    kind = Fields(entry, where, ("kind", *_MATCH, *sorted(every))).one_of("kind", tuple(KINDS))
    fields = Fields(entry, where, ("kind", *_MATCH, *KINDS[kind]))
    return Rule(
        kind=kind,
        manager=fields.one_of("manager", ("", *MANAGERS), ""),
        method=fields.text("method").upper() if fields.has("method") else "",
        path=_pattern(fields),
        purpose=fields.one_of("purpose", ("", *PURPOSES), ""),
        contains=fields.text("contains") if fields.has("contains") else "",
        nth=_numbers(fields),
        times=fields.integer("times") if fields.has("times") else None,
        probability=_probability(fields),
        parameters={name: read(fields, name) for name, read in KINDS[kind].items()},
    )


def _pattern(fields: Fields) -> str:
    text = fields.text("path") if fields.has("path") else ""
    try:
        re.compile(text)
    except re.error as error:
        raise SpecError(fields.at("path"), f"{text!r} is not a regular expression: {error}") from None
    return text


def _numbers(fields: Fields) -> tuple[int, ...]:
    value = fields.value("nth")
    numbers = value if isinstance(value, list) else [] if value is None else [value]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise SpecError(fields.at("nth"), "it must be a whole number from 1, or a list of such numbers, not "
                                              f"{value!r}")
    return tuple(numbers)


def _probability(fields: Fields) -> float:
    value = fields.number("probability", 1.0)
    if value > 1:
        raise SpecError(fields.at("probability"), f"it must be from 0 to 1, not {value:g}")
    return value
