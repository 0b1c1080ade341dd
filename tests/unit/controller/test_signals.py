# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that is asked to stop stops, whatever its main thread is doing at that moment."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from ansible_collections.composable.infra.controller import signals

# The main thread is inside Event.wait, with the event's lock in its hands, when the signal comes.
INSIDE_WAIT = f"""
import signal
from {signals.__name__} import asked_to_stop
stop = asked_to_stop()
with stop._cond:
    signal.raise_signal(signal.Signals[{{name!r}}])
assert stop.wait(10)
"""
# The signal comes to another thread while the main thread waits, which does not wake it.
ELSEWHERE = f"""
import signal, threading
from {signals.__name__} import asked_to_stop
stop = asked_to_stop()
def come():
    while not stop._cond._waiters:
        pass
    signal.pthread_kill(threading.get_ident(), signal.Signals[{{name!r}}])
threading.Thread(target=come).start()
assert stop.wait(10)
"""


@pytest.mark.parametrize("number", signals.ASKED_BY)
@pytest.mark.parametrize("program", [INSIDE_WAIT, ELSEWHERE], ids=["inside the wait", "to another thread"])
def test_a_signal_that_comes_while_the_main_thread_waits_ends_the_wait(program: str, number: signal.Signals) -> None:
    done = subprocess.run([sys.executable, "-c", program.format(name=number.name)], timeout=20, check=False)
    assert done.returncode == 0
