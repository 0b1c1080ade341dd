# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTTPS server for all emulated managers, from a start with files to a stop by signal."""

from __future__ import annotations

import asyncio
import os
import signal
import typing as t
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from . import admin, certificates, credentials, fm, tokens
from .bench import Bench
from .fabric_spec import FabricSpec
from .journal import Journal
from .pool import Pool
from .request_log import RequestLog
from .state_dir import StateDir

# A manager's dialect is the routes it answers. A new one is one more line here.
DIALECTS: t.Final[dict[str, Callable[[Bench], list[web.RouteDef]]]] = {"fm": fm.routes}
BACKLOG: t.Final = 2048


@dataclass(frozen=True, slots=True)
class Options:
    """``ready_fd``: written to and closed once requests are taken. ``parent_fd``: its end of file ends us."""

    spec: FabricSpec
    state: StateDir
    host: str = "127.0.0.1"
    port: int = 0
    ready_fd: int | None = None
    parent_fd: int | None = None


def application(bench: Bench) -> web.Application:
    """All routes of the managers named by the fabric's document."""
    app = web.Application(middlewares=[bench.log.middleware], client_max_size=1024 * 1024)
    app.add_routes([web.post(tokens.PATH, bench.tokens.grant)])
    for name in bench.spec.managers:
        app.add_routes(DIALECTS[name](bench))
    app.add_routes(admin.routes(bench))
    return app


def bench_of(spec: FabricSpec, state: StateDir) -> Bench:
    """The parts, each with what an earlier run left in the folder."""
    told = credentials.settle(spec, state.file("credentials.json"))
    key = credentials.signing_key(state.file("token.key"))
    return Bench(
        spec=spec,
        pool=Pool(spec, Journal(state.file("pool.jsonl"))),
        tokens=tokens.Tokens(told, key, spec.token_lifetime),
        log=RequestLog(Journal(state.file("requests.jsonl"))),
    )


async def serve(options: Options) -> None:
    """Serve until SIGTERM, SIGINT or the end of the parent. Raises OSError when port or folder is taken."""
    with options.state.hold():
        await _serve(options)


async def _serve(options: Options) -> None:
    bench = bench_of(options.spec, options.state)
    context = certificates.server_context(options.state.path, [options.host])
    runner = web.AppRunner(application(bench), access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    try:
        port = options.port or options.state.port()
        await web.TCPSite(runner, options.host, port, ssl_context=context, backlog=BACKLOG).start()
        bench.pool.resume()
        _announce(options, runner)
        await _end(options.parent_fd)
    finally:
        await runner.cleanup()


def _announce(options: Options, runner: web.AppRunner) -> None:
    host = f"[{options.host}]" if ":" in options.host else options.host
    url = f"https://{host}:{runner.addresses[0][1]}"
    options.state.announce(url)
    print(f"{', '.join(options.spec.managers)} at {url}, a page at {url}/", flush=True)
    print(f"certificate authority {options.state.file('ca.pem')}", flush=True)
    print(f"credentials {options.state.file('credentials.json')}", flush=True)
    if options.ready_fd is not None:
        os.write(options.ready_fd, b"ready\n")
        os.close(options.ready_fd)


async def _end(parent_fd: int | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if parent_fd is not None:
        loop.add_reader(parent_fd, stop.set)
    await stop.wait()
    if parent_fd is not None:
        loop.remove_reader(parent_fd)
