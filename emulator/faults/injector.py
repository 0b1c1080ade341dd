# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults in front of all dialects. Rules decide which requests are struck, and how."""

from __future__ import annotations

import functools
import json
import random
import typing as t
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass

from aiohttp import web

from ..admin.request_log import ENTRY
from ..dialects.managers import MANAGERS, purpose_of
from ..tokens import Tokens
from . import kinds
from .kinds import Host, Struck
from .rules import Faulty, Rule

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# Returns the purpose of a change, by its path and JSON body.
Teller = Callable[[str, t.Any], str]
_Route = web.AbstractRoute


@dataclass(slots=True)
class _Counted:
    """A rule, and the number of requests that it met and struck."""

    rule: Rule
    matched: int = 0
    applied: int = 0


class Faults:
    """The current rules.

    The same seed and the same requests in the same order give the same faults.
    """

    def __init__(self, faulty: Faulty | None = None) -> None:
        self.host: Host | None = None
        self.tokens: Tokens | None = None
        self._owners: dict[_Route, str] = {}
        self._tellers: dict[str, Teller] = {}
        self.replace(faulty or Faulty())

    def replace(self, faulty: Faulty) -> None:
        """Replace the rules."""
        self.seed = random.SystemRandom().randrange(2**32) if faulty.seed is None else faulty.seed
        self._rng = random.Random(self.seed)
        self._rules = [_Counted(rule) for rule in faulty.rules]

    def own(self, routes: t.Iterable[_Route], manager: str) -> None:
        """Register the manager to which these routes belong."""
        self._owners.update(dict.fromkeys(routes, manager))

    def teach(self, manager: str, teller: Teller) -> None:
        """Register a function that tells attach from detach by the pool's state."""
        self._tellers[manager] = teller

    def told(self) -> dict[str, t.Any]:
        """Return the rules with their counts."""
        rules = [{**asdict(c.rule), "matched": c.matched, "applied": c.applied} for c in self._rules]
        return {"seed": self.seed, "rules": rules}

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Strike a request with every rule that is due.

        The rule that writes the answer is outermost, and the others follow in their order.
        """
        entry = request.get(ENTRY)
        if entry is None:
            return await handler(request)
        manager = self._owners.get(request.match_info.route, "")
        body = (await request.read()).decode("utf-8", "replace") if request.can_read_body else ""
        row, parsed = MANAGERS.get(manager), _json(body)
        purpose = (row.purpose if row else purpose_of)(request.method, request.path, parsed)
        entry.manager, entry.purpose = manager or None, purpose
        purposes = {purpose, self._taught(manager, purpose, request.path, parsed)}
        for rule in reversed(_nested(self._due(request, manager, purposes, body))):
            entry.faults.insert(0, rule.kind)
            struck = Struck(request, handler, rule.parameters, self._rng, manager, self.host, self.tokens)
            handler = functools.partial(_strike, rule.kind, struck)
        return await handler(request)

    def _taught(self, manager: str, purpose: str, path: str, body: t.Any) -> str:
        """Return the purpose of a change, if its dialect can tell it.

        A rule for any change still applies.
        """
        teller = self._tellers.get(manager)
        return teller(path, body) if teller and purpose == "change" else purpose

    def _due(self, request: web.Request, manager: str, purposes: set[str], body: str) -> list[Rule]:
        def text() -> str:
            return f"{request.path_qs} {body}"

        return [
            counted.rule for counted in self._rules
            if any(counted.rule.matches(manager, request.method, request.path, purpose, text) for purpose in purposes)
            and self._strikes(counted)
        ]

    def _strikes(self, counted: _Counted) -> bool:
        rule = counted.rule
        counted.matched += 1
        if rule.nth and counted.matched not in rule.nth:
            return False
        if rule.times is not None and counted.applied >= rule.times:
            return False
        if rule.probability < 1 and self._rng.random() >= rule.probability:
            return False
        counted.applied += 1
        return True


def _nested(due: list[Rule]) -> list[Rule]:
    """Return the rules from outermost to innermost, with only the first of those that write the
    answer.
    """
    writers = [rule for rule in due if rule.kind in kinds.WRITERS]
    return [*writers[:1], *(rule for rule in due if rule not in writers)]


async def _strike(kind: str, struck: Struck, _request: web.Request) -> web.StreamResponse:
    return await kinds.FUNCTIONS[kind](struck)


def _json(body: str) -> t.Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
