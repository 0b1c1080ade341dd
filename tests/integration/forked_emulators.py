# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start emulators by fork from a process that has imported them.

An emulator that starts as a program costs 0.35 processor seconds, nearly all of them for imports. A fork costs a tenth.
Each test still has a process, a port, certificates and a folder of its own, and ``kill -9`` is real.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
import typing as t
from collections.abc import Mapping, Sequence

MESSAGE_BYTES: t.Final = 256 * 1024
FDS: t.Final = 8


class Forked:
    """A process that the fork server started, with the methods of ``subprocess.Popen`` that the emulator uses."""

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self._pidfd = pidfd
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return None while the process runs."""
        return self.returncode if self._ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Return when the process has ended. Raise TimeoutExpired after ``timeout`` seconds."""
        if not self._ended(timeout):
            raise subprocess.TimeoutExpired(["emulator", str(self.pid)], timeout or 0)
        return self.returncode or 0

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if not self._ended(0):
            signal.pidfd_send_signal(self._pidfd, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> bool:
        if self.returncode is None and select.select([self._pidfd], [], [], timeout)[0]:
            # The fork server is the parent, so only the end is known here.
            self.returncode = 0
            os.close(self._pidfd)
        return self.returncode is not None


class ForkServer:
    """The process that forks. It starts with the first emulator and ends with ``close``."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def launch(
        self, command: Sequence[str], *, stdout: t.BinaryIO, pass_fds: Sequence[int], env: Mapping[str, str],
        **_same: object
    ) -> Forked:
        """Do what ``subprocess.Popen`` does with these arguments of ``Emulator``."""
        arguments = list(command[command.index("-m") + 2:])
        for place, argument in enumerate(arguments[1:], 1):
            if arguments[place - 1].endswith("-fd"):
                arguments[place] = str(pass_fds.index(int(argument)))
        message = json.dumps({"arguments": arguments, "environment": dict(env)}).encode()
        with self._lock:
            control = self._socket = self._socket or self._start()
            socket.send_fds(control, [message], [stdout.fileno(), *pass_fds])
            reply, (pidfd,), _flags, _address = socket.recv_fds(control, MESSAGE_BYTES, 1)
        return Forked(int(reply), pidfd)

    def close(self) -> None:
        """End the fork server. Emulators end when their own owners stop them."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()
            self._socket = self._process = None

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-X", "faulthandler", "-m", __name__, str(theirs.fileno())]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self._process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), env=environ)
        theirs.close()
        return ours


def serve(control: socket.socket) -> None:
    """Fork an emulator for each message until the other end is closed."""
    from ansible_collections.composable.infra.emulator import __main__ as emulator
    from ansible_collections.composable.infra.emulator import server

    assert server.DIALECTS, "imported for the children"
    while True:
        message, fds, _flags, _address = socket.recv_fds(control, MESSAGE_BYTES, FDS)
        reap()
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            os._exit(child(emulator.main, json.loads(message), fds))
        for fd in fds:
            os.close(fd)
        pidfd = os.pidfd_open(pid)
        socket.send_fds(control, [str(pid).encode()], [pidfd])
        os.close(pidfd)


def reap() -> None:
    """Collect the children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def child(main: t.Callable[[list[str]], int], asked: t.Any, fds: list[int]) -> int:
    """Run the emulator as the program would. Return its exit status."""
    output, *passed = fds
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, place in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(fd, place)
    os.close(nothing)
    os.close(output)
    os.environ.clear()
    os.environ.update(asked["environment"])
    arguments: list[str] = asked["arguments"]
    for place, argument in enumerate(arguments[1:], 1):
        if arguments[place - 1].endswith("-fd"):
            arguments[place] = str(passed[int(argument)])
    try:
        status = main(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
