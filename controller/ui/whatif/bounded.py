# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let one child process answer one question at a time, within limits.

The child is killed when its time is over, when the page disconnects, and when the process stops. It
gets only its input and its output. It has no credentials, no other open file, and only the
environment variables that Python needs to start.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import typing as t
from collections.abc import Callable, Sequence
from pathlib import Path

from ansible_collections.composable.infra.controller.ui.whatif.question import Question
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json

Write = Callable[[Json, t.IO[str]], str]
"""Write question and capture into a file.

Return a sentence if there is no capture, else an empty text.
"""
# Seconds for an answer, seconds for sending it, and bytes of an answer.
SECONDS, SEND_SECONDS, MOST_ANSWER = 120, 5.0, 1_000_000
# Bytes of memory: the most and the least for the child, and the part left for the controller
# itself.
MOST_MEMORY, LEAST_MEMORY, LEFT = 1 << 30, 96 << 20, 64 << 20
CGROUP = Path("/sys/fs/cgroup")
BUSY = "The controller answers another question now. Ask again when it has ended."
LATE = f"The answer took longer than {SECONDS} s. Ask about fewer hours or pods, or use the module fabric_whatif."
NO_MEMORY = "The controller has too little free memory for a question. Use the module fabric_whatif."
BROKEN = "The question ended without an answer. The controller may have too little memory or time for it. Use the " \
         "module fabric_whatif."


class WhatIf:
    """Answer the questions of pages.

    ``write``: writes the state of this process. ``program``: the command of the child, without its
    limits. It answers with JSON. ``seconds``: for an answer.
    """

    def __init__(self, write: Write, program: Sequence[str], seconds: float = SECONDS) -> None:
        self._write, self._program, self._seconds = write, program, seconds
        self._turn, self._lock = threading.Lock(), threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = False

    @property
    def busy(self) -> bool:
        """Whether a question is being answered."""
        return self._turn.locked()

    def stop(self) -> None:
        """Kill the running child, and start no more."""
        with self._lock:
            self._stopped = True
            if self._child:
                self._child.kill()

    def adopt(self, connection: socket.socket, question: Question) -> bool:
        """Answer a question on a new thread, which owns the connection from then on."""
        threading.Thread(target=self._serve, args=(connection, question), name="what-if", daemon=True).start()
        return True

    def _serve(self, connection: socket.socket, question: Question) -> None:
        with contextlib.closing(connection), contextlib.suppress(OSError):
            if not self._turn.acquire(blocking=False):
                answer = _error(BUSY)
            else:
                try:
                    answer = self._answer(connection, question)
                finally:
                    self._turn.release()
            connection.settimeout(SEND_SECONDS)
            connection.sendall(answer)

    def _answer(self, connection: socket.socket, question: Question) -> bytes:
        until = time.monotonic() + self._seconds
        with _spool() as file:
            if said := self._write(question.as_dict(), file):
                return _error(said)
            file.seek(0)
            memory = room()
            if memory < LEAST_MEMORY:
                return _error(NO_MEMORY)
            child = self._started(file, memory)
        if child is None:
            return b""
        try:
            return _watched(child, connection, until)
        finally:
            with self._lock:
                self._child = None
            child.kill()
            child.wait()
            if child.stdout:
                child.stdout.close()

    def _started(self, file: t.IO[str], memory: int) -> subprocess.Popen[bytes] | None:
        """Start the child. Return None if this has stopped."""
        kept = {name: value for name, value in os.environ.items() if name == "PATH" or name.startswith("PYTHON")}
        with self._lock:
            if self._stopped:
                return None
            self._child = subprocess.Popen(
                [*self._program, str(max(1, round(self._seconds))), str(memory)], stdin=file, bufsize=0,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=kept, start_new_session=True)
            return self._child


def _spool() -> t.IO[str]:
    """Return a file without a name.

    It is in memory, since a container's file system may be read-only.
    """
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("what-if"), "w+", encoding="utf-8")
    return tempfile.TemporaryFile("w+", encoding="utf-8")


def _watched(child: subprocess.Popen[bytes], connection: socket.socket, until: float) -> bytes:
    """Return the child's answer, empty if the page has disconnected."""
    output, found = t.cast("t.IO[bytes]", child.stdout), bytearray()
    connection.setblocking(False)
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        selector.register(connection, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            ready = [key.fileobj for key, _unused in selector.select(left)]
            if connection in ready and _has_left(connection):
                return b""
            if output in ready:
                data = os.read(output.fileno(), 65536)
                found += data
                if not data or len(found) > MOST_ANSWER:
                    return bytes(found) if not data and _ended_well(child, left) else _error(BROKEN)
    return _error(LATE)


def _ended_well(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Return whether a child that has closed its output exits with status 0."""
    try:
        return child.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        return False


def _has_left(connection: socket.socket) -> bool:
    """Return whether a page has disconnected. A page sends nothing after its question."""
    try:
        connection.recv(1024)
    except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return False
    except OSError:
        return True
    return True


def room(cgroup: Path = CGROUP) -> int:
    """Return the bytes of memory for a child.

    They are the rest of the container's limit, so that the kernel does not end the controller.
    """
    try:
        limit = int((cgroup / "memory.max").read_text(encoding="ascii"))
        rows = dict(line.split() for line in (cgroup / "memory.stat").read_text(encoding="ascii").splitlines())
        return min(MOST_MEMORY, limit - int(rows["anon"]) - int(rows["shmem"]) - LEFT)
    except (OSError, ValueError, KeyError):
        return MOST_MEMORY  # The container has no limit.


def _error(said: str) -> bytes:
    return json.dumps({"error": said}).encode()
