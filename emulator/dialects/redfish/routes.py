# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Redfish service with composition and fabrics, which requires a login."""

from __future__ import annotations

import typing as t

from aiohttp import web

from ...context import EmulatorContext
from ..shared.redfish.options import ADD_BLOCK, COMPOSE, CONNECTIONS, Options
from ..shared.redfish.service import Service

OFFERED: t.Final = [ADD_BLOCK, CONNECTIONS, COMPOSE]


def routes(context: EmulatorContext) -> list[web.RouteDef]:
    """Return the routes of the service."""
    return Service(context, "redfish", Options.of(context.spec, "redfish", OFFERED), closed=True).routes()
