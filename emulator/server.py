# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One server for all emulated managers, with https and if needed http, until a signal stops it."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import typing as t
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from aiohttp import web

from . import certificates, credentials, tokens
from .admin import routes as admin
from .admin.request_log import RequestLog
from .context import EmulatorContext
from .dialects.cm import routes as cm
from .dialects.fm import routes as fm
from .dialects.managers import MANAGERS
from .dialects.nec import routes as nec
from .dialects.redfish import routes as redfish
from .dialects.sunfish import routes as sunfish
from .faults.injector import Faults
from .pool.fabric_spec import FabricSpec
from .pool.journal import Journal
from .pool.pool import DevicePool
from .state_dir import StateDir


def cm_with_fm(context: EmulatorContext) -> list[web.RouteDef]:
    """Return CM's routes, and the routes of FM that a client of CM reads at the same address."""
    reads = [] if "fm" in context.spec.managers else [r for r in fm.routes(context) if r.method == "GET"]
    return [*cm.routes(context), *reads]


# The routes of each manager's dialect. A new manager is one more line, unless it is from another
# collection.
DIALECTS: t.Final[dict[str, Callable[[EmulatorContext], list[web.RouteDef]]]] = {
    "fm": fm.routes,
    "cm": cm_with_fm,
    "nec": nec.routes,
    "redfish": redfish.routes,
    "sunfish": sunfish.routes,
}
BACKLOG: t.Final = 2048


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the server.

    ``ready_fd``: written to and closed when requests are accepted. ``parent_fd``: its end of file
    ends this process. ``port`` and ``plain_port``: 0 for those of the last run, or free ports.
    """

    spec: FabricSpec
    state: StateDir
    host: str = "127.0.0.1"
    port: int = 0
    plain_port: int = 0
    ready_fd: int | None = None
    parent_fd: int | None = None


def application(context: EmulatorContext, *, plain: bool = False) -> web.Application:
    """Return one listener with the routes of its managers.

    The https listener also has the identity service and /admin.
    """
    app = web.Application(middlewares=[context.log.middleware, context.faults.middleware], client_max_size=1024 * 1024)
    if not plain:
        app.add_routes([web.post(tokens.PATH, context.tokens.grant)])
        app.add_routes(admin.routes(context))
    for name in managers_of(context.spec, plain=plain):
        context.faults.own(app.add_routes(routes_of(name, context)), name)
    return app


def routes_of(name: str, context: EmulatorContext) -> list[web.RouteDef]:
    """Return the routes of a manager's dialect."""
    make = DIALECTS.get(name) or MANAGERS[name].routes
    return make(context) if make else []


def managers_of(spec: FabricSpec, *, plain: bool) -> list[str]:
    """Return the document's managers on one listener."""
    return [name for name in spec.managers if MANAGERS[name].plain == plain]


def context_of(spec: FabricSpec, state: StateDir, faults: Faults) -> EmulatorContext:
    """Return the parts of the emulator, each with the state of an earlier run in the folder."""
    told = credentials.choose(spec, state.file("credentials.json"))
    key = credentials.signing_key(state.file("token.key"))
    context = EmulatorContext(
        spec=spec,
        pool=DevicePool(spec, Journal(state.file("pool.jsonl"))),
        tokens=tokens.Tokens(told, key, spec.token_lifetime),
        log=RequestLog(Journal(state.file("requests.jsonl")), Journal(state.file("effects.jsonl"))),
        faults=faults,
        folder=state.path,
    )
    context.pool.on_effect = context.log.effect
    faults.tokens = context.tokens
    return context


def run(options: Options) -> None:
    """Serve until SIGTERM, SIGINT or the end of the parent.

    Raises OSError if port or folder is taken.

    A restart is a new run with a new event loop. Only the written state is left. The faults belong
    to the test bench and stay.
    """
    faults = Faults(options.spec.faults)
    while asyncio.run(serve(options, faults)):
        options = replace(options, ready_fd=None)


async def serve(options: Options, faults: Faults) -> bool:
    """Serve one run. Return True if another run follows."""
    with options.state.hold():
        return await _serve(options, faults)


async def _serve(options: Options, faults: Faults) -> bool:
    context = context_of(options.spec, options.state, faults)
    tls = certificates.server_context(options.state.path, [options.host])
    runners = {
        plain: web.AppRunner(application(context, plain=plain), access_log=None, shutdown_timeout=0.2)
        for plain in (False, True) if not plain or managers_of(options.spec, plain=True)
    }
    life = faults.host = _Life(options, tls, list(runners.values()))
    try:
        for plain, runner in runners.items():
            await runner.setup()
            port = (options.plain_port if plain else options.port) or options.state.port(plain=plain)
            secure = None if plain else tls
            await web.TCPSite(runner, options.host, port, ssl_context=secure, backlog=BACKLOG).start()
        context.pool.resume()
        _announce(options, runners)
        await _end(options.parent_fd, life.stop)
    finally:
        for runner in runners.values():
            await runner.cleanup()
    return life.again


@dataclass(slots=True)
class _Life:
    """The actions of faults on the serving process. ``again``: start another run after this one."""

    options: Options
    tls: ssl.SSLContext
    runners: list[web.AppRunner]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    again: bool = False

    def restart(self) -> None:
        """End without an answer to any client."""
        self.again = True
        for connection in self._connections():
            if connection.transport is not None:
                connection.transport.abort()
        self.stop.set()

    def change_certificate(self, *, change: bool, publish: bool, spared: object = None) -> None:
        """Change the certificate for new connections, and close existing connections."""
        folder = self.options.state.path
        if change:
            certificates.renew(self.tls, folder, [self.options.host])
        if publish:
            certificates.publish_authority(folder)
        for connection in self._connections() if change else ():
            if connection is not spared:
                connection.force_close()

    def _connections(self) -> list[t.Any]:
        return [connection for runner in self.runners if runner.server for connection in runner.server.connections]


def _announce(options: Options, runners: dict[bool, web.AppRunner]) -> None:
    host = f"[{options.host}]" if ":" in options.host else options.host
    for plain, runner in runners.items():
        url = f"{'http' if plain else 'https'}://{host}:{runner.addresses[0][1]}"
        options.state.announce(url, plain=plain)
        names = ", ".join(managers_of(options.spec, plain=plain)) or "no manager"
        print(f"{names} at {url}" if plain else f"{names} at {url}, a page at {url}/", flush=True)
    print(f"certificate authority {options.state.file('ca.pem')}", flush=True)
    print(f"credentials {options.state.file('credentials.json')}", flush=True)
    if options.ready_fd is not None:
        os.write(options.ready_fd, b"ready\n")
        os.close(options.ready_fd)


async def _end(parent_fd: int | None, stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if parent_fd is not None:
        loop.add_reader(parent_fd, stop.set)
    await stop.wait()
    if parent_fd is not None:
        loop.remove_reader(parent_fd)
