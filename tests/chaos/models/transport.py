# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way of a process to the API server, under the real client: latency, lost requests and lost
replies.
"""

from __future__ import annotations

import random
import threading
import typing as t
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from email.utils import formatdate

from ansible_collections.composable.infra.plugins.module_utils.kube.client import transport as real
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.server_clock import ServerClock
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.net.client import HttpClient, Response, Timeouts
from ansible_collections.composable.infra.plugins.module_utils.net.errors import NoResponse
from ansible_collections.composable.infra.plugins.module_utils.net.http1 import Headers, HttpConnection
from ansible_collections.composable.infra.tests.chaos.models.api_server import ApiServer, Call, Refusal, Watch, parse
from ansible_collections.composable.infra.tests.chaos.simulation import stand_ins
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Process, Simulation

# Seconds of each way.
LATENCY = (0.0005, 0.006)
# The fates of a request: none, the request is lost, its reply is lost, the server is busy, or it
# answers Conflict.
FINE, LOST, REPLY_LOST, BUSY, CONFLICT = "fine", "lost", "reply lost", "busy", "conflict"
# Called before and after each request with the point's name after ``before `` or ``after ``, and
# with the process.
AtPoint = Callable[[str, Process], object]


class Network:
    """The network of all processes. ``down``: the API server cannot be reached. ``fate(process,
    call)``: fate of a request.
    """

    def __init__(self, simulation: Simulation, server: ApiServer) -> None:
        self.simulation, self.server = simulation, server
        self.rng = random.Random(simulation.rng.random())
        self.down = False
        self.lag = (0.001, 0.02)
        self.fate: Callable[[Process, Call], str] = lambda process, call: FINE
        self.at_point: AtPoint = lambda point, process: None
        self.requests = 0

    def client(self, process: Process) -> Client:
        """Return the real client for one process."""
        made = object.__new__(Client)
        made.connection = t.cast(Connection, None)
        made._transport = _Transport(_Http(self, process))
        made._check = None
        return made


class _Transport(real.Transport):
    """The real transport with its retries, over a simulated connection."""

    def __init__(self, http: _Http) -> None:
        self.server = "https://api.example"
        self._http = t.cast(HttpClient, http)
        self._authorization = lambda refresh=False: None
        self._limits = real.DEFAULT_LIMITS
        self._closed = t.cast(threading.Event, stand_ins.Event())
        self.clock = ServerClock()


class _Http:
    """Replaces net.client.HttpClient."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network, self._process = network, process

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, timeouts: Timeouts,
                streamed: bool = False) -> Response:
        network = self._network
        network.requests += 1
        if self._process.dead:
            network.simulation.sleep(0)
        call = parse(method, path, body, headers.get("Content-Type", ""))
        point = call.point if call else "discovery"
        fate = network.fate(self._process, call) if call else FINE
        if network.down or fate == LOST:
            network.simulation.sleep(network.rng.uniform(*LATENCY))
            raise NoResponse(ConnectionRefusedError("Connection refused"), sent=False)
        network.at_point(f"before {point}", self._process)
        response = self._answer(call, path, streamed, fate)
        network.simulation.sleep(network.rng.uniform(*LATENCY))
        network.at_point(f"after {point}", self._process)
        if network.down or fate == REPLY_LOST:
            raise NoResponse(ConnectionResetError("reset by peer"), sent=True)
        return response

    def _answer(self, call: Call | None, path: str, streamed: bool, fate: str) -> Response:
        network = self._network
        headers = t.cast(Headers, {"date": formatdate(network.server.wall(), usegmt=True)})
        try:
            if call is None:
                return Response(200, headers, network.server.discovery(path))
            if fate == BUSY:
                raise Refusal(429, "TooManyRequests", "the server has received too many requests")
            if fate == CONFLICT:
                raise Refusal(409, "Conflict", "the object has been modified")
            if streamed:
                return Response(200, headers, b"", t.cast(HttpConnection, _Stream(network, call)))
            return Response(200, headers, network.server.handle(call))
        except Refusal as refusal:
            return Response(refusal.status, headers, refusal.body(call.name if call else ""))

    def warm(self, *_unused: object) -> None:
        """Do nothing, there is nothing to keep warm."""

    def close(self) -> None:
        """Do nothing, there is nothing to close."""


class _Stream:
    """Replaces the connection of a watch. Events arrive a moment later, in order."""

    def __init__(self, network: Network, call: Call) -> None:
        self._network = network
        self._arriving: deque[tuple[float, bytes | None]] = deque()
        self._something = stand_ins.Event()
        self._last = 0.0
        self._watch: Watch = network.server.watch(call, self._put)

    def _put(self, event: bytes | None) -> None:
        network = self._network
        self._last = max(self._last, network.simulation.now + network.rng.uniform(*network.lag))
        self._arriving.append((self._last, event))
        self._something.set()

    def pieces(self) -> Iterator[bytes]:
        """Yield events until the watch ends."""
        while True:
            while not self._arriving:
                self._something.clear()
                self._something.wait()
            # Take it before the wait, because `cut` puts its end before all later events.
            when, event = self._arriving.popleft()
            if when > self._network.simulation.now:
                self._network.simulation.sleep(when - self._network.simulation.now)
            if event is None:
                return
            yield event

    def set_timeout(self, _seconds: float) -> None:
        """Do nothing, since the stream is never silent for too long."""

    def cut(self) -> None:
        """End the stream, from any task."""
        self._arriving.appendleft((0.0, None))
        self._something.set()

    def close(self) -> None:
        """End the watch at the server."""
        self._network.server.end(self._watch)
