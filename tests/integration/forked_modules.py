# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run Ansible modules by fork from a process that has imported what modules import.

A module costs 0.25 processor seconds before its first line: Python starts, and compiles what Ansible packs. One that
asks an API server costs 0.6 more, to import its client. A fork costs 0.05. ``ModuleServer.interpreter`` is a program
for ``ansible_python_interpreter``: Ansible packs, sends and starts each module as ever, and the program hands its
files, arguments and environment to the server.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import marshal
import os
import select
import shlex
import socket
import subprocess
import sys
import traceback
import types
import typing as t
from pathlib import Path

LIBRARY: t.Final = (*(f"ansible.module_utils.{name}" for name in (
    "basic", "urls", "common.text.converters", "common.dict_transformations")), "kubernetes.dynamic", "jmespath")
# It imports three built-in modules and no other: its start is what remains of the cost.
CLIENT: t.Final = """\
import _socket, marshal, posix, sys
python, address = sys.argv[1:3]
arguments = sys.argv[3:]
if arguments and arguments[0].startswith("-"):
    posix.execv(python, [python, *arguments])
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect(address)
asked = marshal.dumps((arguments, posix.getcwd(), dict(posix.environ)))
fds = b"".join(n.to_bytes(4, sys.byteorder) for n in (0, 1, 2))
server.sendmsg([len(asked).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
server.sendall(asked)
status = server.recv(1)
posix._exit(status[0] if status else 1)
"""


class ModuleServer:
    """The process that forks. ``folder``: for its socket and the program; its path must be short."""

    def __init__(self, folder: Path) -> None:
        self.interpreter = folder / "python"
        client, address = folder / "client.py", folder / "socket"
        client.write_text(CLIENT, encoding="utf-8")
        words = [sys.executable, "-IS", str(client), sys.executable, str(address)]
        self.interpreter.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        self.interpreter.chmod(0o755)
        watch, self._lifeline = os.pipe()
        # Only the server listens: when it has failed, programs are refused and do not wait.
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(address))
            listener.listen(64)
            fds = (listener.fileno(), watch)
            command = [sys.executable, str(Path(__file__)), *map(str, fds)]
            self._process = subprocess.Popen(command, pass_fds=fds, stdin=subprocess.DEVNULL)
        os.close(watch)

    def close(self) -> None:
        """End the server."""
        os.close(self._lifeline)
        self._process.terminate()
        self._process.wait()


def serve(listener: socket.socket, lifeline: int) -> None:
    """Fork for each program that connects. End with the process that holds the other end of ``lifeline``."""
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        ready = select.select([listener.fileno(), lifeline, *running], [], [])[0]
        if lifeline in ready:
            return
        for pidfd in [each for each in ready if each in running]:
            # The module may leave processes behind, so its end is that of its first process.
            (pid, connection) = running.pop(pidfd)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with contextlib.suppress(OSError):
                connection.send(bytes([status if status >= 0 else 128 - status]))
            connection.close()
            os.close(pidfd)
        if listener.fileno() in ready:
            connection, _address = listener.accept()
            pid = os.fork()
            if pid == 0:
                listener.close()
                os._exit(child(connection))
            running[os.pidfd_open(pid)] = (pid, connection)


def child(connection: socket.socket) -> int:
    """Run a module as Python would. Return its exit status."""
    size, ancillary, _flags, _address = connection.recvmsg(4, socket.CMSG_SPACE(12))
    fds = array.array("i", ancillary[0][2])
    (arguments, folder, environment) = marshal.loads(received(connection, int.from_bytes(size, "big")))
    connection.close()
    for place, fd in enumerate(fds):
        os.dup2(fd, place)
        os.close(fd)
    os.chdir(folder)
    os.environ.clear()
    os.environb.update(environment)
    sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.argv = arguments or ["-"]
    status = run(arguments)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return status


def received(connection: socket.socket, size: int) -> bytes:
    """Return the next ``size`` bytes."""
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise EOFError("the program ended before it had asked")
        found += part
    return found


def run(arguments: list[str]) -> int:
    """Run a file, or what standard input has, as ``__main__``. Return the exit status."""
    name = arguments[0] if arguments else "<stdin>"
    source = Path(name).read_bytes() if arguments else sys.stdin.buffer.read()
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = name
    status: object = 0
    try:
        exec(compile(source, name, "exec"), main.__dict__)
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    if isinstance(status, str):
        print(status, file=sys.stderr)
        return 1
    return int(t.cast(int, status or 0)) & 255


if __name__ == "__main__":
    import importlib

    for library in LIBRARY:
        importlib.import_module(library)
    gc.freeze()  # or each collection of garbage in a fork copies the pages of all that is imported
    # the folder of this file
    del sys.path[0]
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
