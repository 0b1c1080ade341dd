# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the programs are asked to stop: by the kubelet, and by whoever presses Ctrl-C."""

from __future__ import annotations

import queue
import signal
import threading

ASKED_BY = (signal.SIGTERM, signal.SIGINT)


def asked_to_stop() -> threading.Event:
    """An event that SIGTERM and SIGINT set from now on. Called in the main thread.

    A handler runs in the middle of what the main thread does. So it takes no lock: ``Event.set`` would wait for ever
    where the main thread is just inside ``Event.wait``. ``SimpleQueue.put`` is made for that.
    Source: docs.python.org/3/library/queue.html, SimpleQueue.put.
    """
    stop, asked = threading.Event(), queue.SimpleQueue[int]()

    def pass_on() -> None:
        asked.get()
        stop.set()

    threading.Thread(target=pass_on, name="signals", daemon=True).start()
    for number in ASKED_BY:
        signal.signal(number, lambda which, _frame: asked.put(which))
    return stop
