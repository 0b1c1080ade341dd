# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common parts of FM's and CM's dialects, which are a bearer token, one tenant's machines, and
errors.
"""

from __future__ import annotations

import typing as t
from collections.abc import Awaitable, Callable

from aiohttp import web

from ....admin.request_log import ENTRY
from ....context import EmulatorContext
from ....pool.parts import MachineSpec
from ....pool.pool import PoolError, UnknownMachine
from .errors import UNAUTHORIZED, FsasError

Handler = Callable[[web.Request], Awaitable[t.Any]]


class Tenanted:
    """A dialect with tenants. ``machines``: of the document's tenant, by uid."""

    def __init__(self, context: EmulatorContext) -> None:
        self.context = context
        self.pool = context.pool
        ours = (m for m in context.pool.machines.values() if m.tenant in (None, context.spec.tenant))
        self.machines = {machine.uid: machine for machine in ours}

    def guarded(self, handler: Handler) -> Handler:
        """Return a handler that checks the request first, with errors in the form that CM shares
        with FM.
        """

        async def guard(request: web.Request) -> web.Response:
            try:
                self.admit(request)
                return web.json_response(await handler(request))
            except FsasError as error:
                return error.response()
            except PoolError as error:
                return FsasError.of_pool(error).response()

        return guard

    def admit(self, request: web.Request) -> None:
        """Check the token of a request. A dialect adds checks of its own. Raises FsasError."""
        if problem := self.context.tokens.problem(request.headers.get("Authorization")):
            raise FsasError(401, UNAUTHORIZED, problem)

    def asked(self, request: web.Request) -> MachineSpec:
        """Return the machine of the path. Raises UnknownMachine."""
        uid = request.match_info["machine"]
        request[ENTRY].machine = uid
        if uid not in self.machines:
            raise UnknownMachine(f"machine {uid} does not exist")
        return self.machines[uid]
