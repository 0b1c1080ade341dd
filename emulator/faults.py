# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Misbehaviour on demand, in front of all dialects: which requests are struck, and by what."""

from __future__ import annotations

import functools
import json
import random
import typing as t
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass

from aiohttp import web

from . import fault_kinds
from .fault_kinds import Host, Struck
from .fault_rules import Faulty, Rule
from .managers import MANAGERS, purpose_of
from .request_log import ENTRY
from .tokens import Tokens

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_Route = web.AbstractRoute


@dataclass(slots=True)
class _Counted:
    """A rule, and how many requests it met and struck."""

    rule: Rule
    matched: int = 0
    applied: int = 0


class Faults:
    """The rules in force. The same seed and the same requests in the same order give the same faults."""

    def __init__(self, faulty: Faulty | None = None) -> None:
        self.host: Host | None = None
        self.tokens: Tokens | None = None
        self._owners: dict[_Route, str] = {}
        self.replace(faulty or Faulty())

    def replace(self, faulty: Faulty) -> None:
        """Other rules from now on."""
        self.seed = random.SystemRandom().randrange(2**32) if faulty.seed is None else faulty.seed
        self._rng = random.Random(self.seed)
        self._rules = [_Counted(rule) for rule in faulty.rules]

    def own(self, routes: t.Iterable[_Route], manager: str) -> None:
        """Know whose routes these are."""
        self._owners.update(dict.fromkeys(routes, manager))

    def told(self) -> dict[str, t.Any]:
        """The rules with their counts."""
        rules = [{**asdict(c.rule), "matched": c.matched, "applied": c.applied} for c in self._rules]
        return {"seed": self.seed, "rules": rules}

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Strike a request with every rule that is due, the first one outermost."""
        entry = request.get(ENTRY)
        if entry is None:
            return await handler(request)
        manager = self._owners.get(request.match_info.route, "")
        row = MANAGERS.get(manager)
        body = (await request.read()).decode("utf-8", "replace") if request.can_read_body else ""
        purpose = (row.purpose if row else purpose_of)(request.method, request.path, _json(body))
        entry.manager, entry.purpose = manager or None, purpose
        for rule in reversed(self._due(request, manager, purpose, body)):
            entry.faults.insert(0, rule.kind)
            struck = Struck(request, handler, rule.parameters, self._rng, manager, self.host, self.tokens)
            handler = functools.partial(_strike, rule.kind, struck)
        return await handler(request)

    def _due(self, request: web.Request, manager: str, purpose: str, body: str) -> list[Rule]:
        def text() -> str:
            return f"{request.path_qs} {body}"

        return [
            counted.rule for counted in self._rules
            if counted.rule.matches(manager, request.method, request.path, purpose, text) and self._strikes(counted)
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


async def _strike(kind: str, struck: Struck, _request: web.Request) -> web.StreamResponse:
    return await fault_kinds.FUNCTIONS[kind](struck)


def _json(body: str) -> t.Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
