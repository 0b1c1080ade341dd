# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stop the programs by a signal, from the kubelet or from Ctrl-C."""

from __future__ import annotations

import signal
import socket
import threading

ASKED_BY = (signal.SIGTERM, signal.SIGINT)


def asked_to_stop() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set from now on. Call it once, in the main thread.

    Python runs signal handlers in the main thread, and not while that thread waits for a lock. If a
    signal arrives in another thread, or just before the wait, its handler runs only after the wait.
    So the interpreter itself writes the number of each signal to a socket at once, and a thread
    reads it. Source: docs.python.org/3/library/signal.html, set_wakeup_fd.
    """
    stop = threading.Event()
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

    def pass_on() -> None:
        with writer:
            while number := reader.recv(1):
                if number[0] in ASKED_BY:
                    stop.set()

    threading.Thread(target=pass_on, name="signals", daemon=True).start()
    for number in ASKED_BY:
        signal.signal(number, lambda _number, _frame: None)
    return stop
