# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for machines with Redfish power control. It knows only one action.

Each node is a machine. A shut-down machine is powered off at once. Its Node is deleted, like by the
cloud's lifecycle controller after an instance is gone. Source: DMTF DSP0266, ComputerSystem.Reset.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import typing as t
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ansible_collections.composable.infra.lab.autoscaling.processes import SERVER_NAME, Certificates

Json = dict[str, t.Any]
SYSTEMS, RESET = "/redfish/v1/Systems/", "/Actions/ComputerSystem.Reset"
USER, PASSWORD = "operator", "of-the-machines"


class Machines:
    """Redfish server that runs until ``stop``.

    ``shut_down(name)`` is called while the node still exists. ``resets`` has (epoch seconds,
    machine, kind) of each requested reset.
    """

    def __init__(self, names: Iterable[str], certificates: Certificates, shut_down: Callable[[str], None]) -> None:
        self.power, self.resets, self._shut_down = dict.fromkeys(names, "On"), list[tuple[float, str, str]](), shut_down
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server.certificate, certificates.server.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def config(self, ca: Path, folder: Path) -> list[Json]:
        """Return the key ``machines`` of the provider ``static``, and write the password file to
        the folder."""
        password = folder / "machines-password"
        password.write_text(PASSWORD, encoding="utf-8")
        return [{"node": name, "endpoint": f"https://{SERVER_NAME}:{self._server.server_port}", "ca_path": str(ca),
                 "system": SYSTEMS + name, "username": USER, "password_path": str(password)} for name in self.power]

    def answer(self, method: str, path: str, body: Json) -> tuple[int, Json]:
        """Return status and body."""
        name = path.removeprefix(SYSTEMS).removesuffix(RESET)
        if name not in self.power:
            return 404, {}
        if method == "GET" and not path.endswith(RESET):
            return 200, {"PowerState": self.power[name]}
        if method != "POST" or body.get("ResetType") not in ("On", "GracefulShutdown"):
            return 400, {}
        self.resets.append((time.time(), name, body["ResetType"]))
        if body["ResetType"] == "GracefulShutdown":
            self._shut_down(name)
        self.power[name] = "On" if body["ResetType"] == "On" else "Off"
        return 204, {}

    def stop(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(machines: Machines) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Accepts only the one user."""

        def do_GET(self) -> None:
            self._do("GET")

        def do_POST(self) -> None:
            self._do("POST")

        def log_message(self, *_unused: object) -> None:
            """Do nothing."""

        def _do(self, method: str) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
            allowed = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            known = self.headers.get("Authorization") == allowed
            status, found = machines.answer(method, self.path, body) if known else (401, {})
            content = b"" if status == 204 else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler
