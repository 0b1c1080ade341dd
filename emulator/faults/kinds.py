# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of faults. The effect of a request happens at ``await struck.answer()``."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import struct
import typing as t
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from aiohttp import web

from ..admin.request_log import UNANSWERED
from ..dialects.managers import MANAGERS, plain_error
from ..pool.pooled import MISCHIEF, Mischief
from ..tokens import CLOCK_SKEW, Tokens

_PIECES: t.Final = 20
_HTML: t.Final = "<html><head><title>{0}</title></head><body><h1>{0}</h1><hr>gateway</body></html>"

V = t.TypeVar("V")


class Host(t.Protocol):
    """The functions of the serving process that faults call."""

    def restart(self) -> None:
        """End at once, as by kill -9, and start again."""

    def change_certificate(self, *, change: bool, publish: bool, spared: object = None) -> None:
        """Change the server's certificate.

        ``change``: serve another certificate from now on. ``publish``: give clients the current
        authority. ``spared``: a connection to keep.
        """


@dataclass(frozen=True, slots=True)
class Struck:
    """A request that a rule strikes. ``handler``: the dialect, or the next rule that strikes it."""

    request: web.Request
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    parameters: Mapping[str, t.Any]
    rng: random.Random
    manager: str
    host: Host | None
    tokens: Tokens | None

    async def answer(self) -> web.StreamResponse:
        """Return the manager's answer."""
        try:
            return await self.handler(self.request)
        except web.HTTPException as error:
            return web.Response(status=error.status, text=error.text, content_type=error.content_type)

    def drop(self, *, reset: bool = False) -> web.StreamResponse:
        """Close the connection without an answer. ``reset``: with TCP's RST."""
        self.request[UNANSWERED] = True
        transport = self.request.transport
        if transport is not None:
            raw = transport.get_extra_info("socket")
            if reset and raw is not None:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        return web.Response()


async def latency(struck: Struck) -> web.StreamResponse:
    """Take longer, before the effect or after it."""
    if struck.parameters["after"]:
        response = await struck.answer()
        await asyncio.sleep(_seconds(struck))
        return response
    await asyncio.sleep(_seconds(struck))
    return await struck.answer()


def _seconds(struck: Struck) -> float:
    mean, spread, rng = float(struck.parameters["seconds"]), float(struck.parameters["spread"]), struck.rng
    drawn = mean
    if struck.parameters["distribution"] == "uniform":
        drawn = rng.uniform(mean - spread, mean + spread)
    elif struck.parameters["distribution"] == "normal":
        drawn = rng.gauss(mean, spread)
    elif struck.parameters["distribution"] == "exponential" and mean:
        drawn = rng.expovariate(1 / mean)
    return max(drawn, 0.0)


async def lost_request(struck: Struck) -> web.StreamResponse:
    """End the connection before the effect."""
    return struck.drop()


async def lost_reply(struck: Struck) -> web.StreamResponse:
    """End the connection after the effect, without an answer."""
    await struck.answer()
    return struck.drop()


async def doubled(struck: Struck) -> web.StreamResponse:
    """Handle the request twice, and return the first answer."""
    first = await struck.answer()
    await struck.answer()
    return first


async def status(struck: Struck) -> web.StreamResponse:
    """Return an error status in the manager's own form, or as a gateway's page.

    ``after``: after the effect.
    """
    if struck.parameters["after"]:
        await struck.answer()
    number, later = struck.parameters["status"], struck.parameters["retry_after"]
    headers = {} if later is None else {"Retry-After": str(later)}
    if struck.parameters["html"]:
        return web.Response(status=number, text=_HTML.format(number), content_type="text/html", headers=headers)
    row = MANAGERS.get(struck.manager)
    body = (row.error if row else plain_error)(number, "an injected fault")
    return web.json_response(body, status=number, headers=headers)


async def revoked_token(struck: Struck) -> web.StreamResponse:
    """Revoke all tokens."""
    if struck.tokens:
        struck.tokens.revoke()
    return await struck.answer()


async def clock_skew(struck: Struck) -> web.StreamResponse:
    """Issue a token with the times of another clock."""
    with _during(CLOCK_SKEW, struck.parameters["seconds"]):
        return await struck.answer()


async def truncated(struck: Struck) -> web.StreamResponse:
    """End the body early, and the connection with it."""
    response = await struck.answer()
    body = _body(response)
    sent = await _begin(struck, response, len(body))
    await sent.write(body[: int(len(body) * struck.parameters["keep"])])
    return _finished(struck, sent)


async def not_json(struck: Struck) -> web.StreamResponse:
    """Return a gateway's page after the effect."""
    response = await struck.answer()
    return web.Response(status=response.status, text=_HTML.format("Welcome"), content_type="text/html")


async def incomplete(struck: Struck) -> web.StreamResponse:
    """Return a list of machines or members without its last entries, as a manager that has just
    started.
    """
    response = await struck.answer()
    body = json.loads(_body(response) or b"null")
    return web.json_response(_shortened(body, struck.parameters["keep"]), status=response.status)


def _shortened(value: t.Any, keep: float) -> t.Any:
    if not isinstance(value, dict):
        return value
    found = {name: _shortened(each, keep) for name, each in value.items()}
    for name in {"machines", "Members"} & found.keys():
        if isinstance(found[name], list):
            found[name] = found[name][: int(len(found[name]) * keep)]
    if "Members" in found:
        found["Members@odata.count"] = len(found["Members"])
    return found


async def slow_drip(struck: Struck) -> web.StreamResponse:
    """Send the body in pieces, over ``seconds``."""
    response = await struck.answer()
    body = _body(response)
    sent = await _begin(struck, response, len(body))
    step = max(len(body) // _PIECES, 1)
    for start in range(0, len(body), step):
        await sent.write(body[start : start + step])
        await asyncio.sleep(struck.parameters["seconds"] / _PIECES)
    return sent


async def reset(struck: Struck) -> web.StreamResponse:
    """Reset the connection. ``after``: after the effect."""
    if struck.parameters["after"]:
        await struck.answer()
    return struck.drop(reset=True)


async def certificate(struck: Struck) -> web.StreamResponse:
    """Serve another certificate from now on. ``publish``: also in the file that clients trust."""
    if struck.host:
        struck.host.change_certificate(change=True, publish=struck.parameters["publish"])
    return struck.drop()


async def health(struck: Struck) -> web.StreamResponse:
    """Give the device that this request attaches another health."""
    with _during(MISCHIEF, Mischief(health=struck.parameters["health"])):
        return await struck.answer()


async def operation_failed(struck: Struck) -> web.StreamResponse:
    """Let the fabric fail for ``devices`` of the request's devices (CM: ADD_FAILED, REMOVE_FAILED).
    """
    with _during(MISCHIEF, Mischief(failures=struck.parameters["devices"])):
        return await struck.answer()


async def vanish(struck: Struck) -> web.StreamResponse:
    """Pull out the device of this request as soon as it is attached."""
    with _during(MISCHIEF, Mischief(vanish=True)):
        return await struck.answer()


async def restart(struck: Struck) -> web.StreamResponse:
    """Kill and restart the manager once it has begun to work on the request."""
    working = asyncio.ensure_future(struck.answer())
    for _unused in range(_PIECES):
        await asyncio.sleep(0)
    if struck.host:
        struck.host.restart()
    return await working


@contextlib.contextmanager
def _during(variable: ContextVar[V], value: V) -> Iterator[None]:
    """Set the variable for all tasks that the request starts."""
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def _body(response: web.StreamResponse) -> bytes:
    body = response.body if isinstance(response, web.Response) else None
    return body if isinstance(body, bytes) else b""


async def _begin(struck: Struck, response: web.StreamResponse, length: int) -> web.StreamResponse:
    """Begin an answer with the same status and headers, but with a body in pieces."""
    headers = {name: value for name, value in response.headers.items() if name.lower() != "content-length"}
    sent = web.StreamResponse(status=response.status, headers=headers)
    sent.content_length = length
    await sent.prepare(struck.request)
    return sent


def _finished(struck: Struck, sent: web.StreamResponse) -> web.StreamResponse:
    """Send the written part, then close the connection."""
    sent.force_close()
    if struck.request.transport is not None:
        struck.request.transport.close()
    return sent


# These write the answer themselves. Another one around it would write a second answer to the
# request.
WRITERS: t.Final = ("truncated", "slow_drip")

FUNCTIONS: t.Final[Mapping[str, Callable[[Struck], Awaitable[web.StreamResponse]]]] = {
    function.__name__: function
    for function in (
        latency, lost_request, lost_reply, doubled, status, revoked_token, clock_skew, truncated, not_json, incomplete,
        slow_drip, reset, certificate, health, operation_failed, vanish, restart,
    )
}
