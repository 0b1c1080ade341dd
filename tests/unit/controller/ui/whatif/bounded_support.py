# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_bounded.py` and others share."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import typing as t
from pathlib import Path

from ansible_collections.composable.infra.controller.ui.whatif import bounded
from ansible_collections.composable.infra.controller.ui.whatif.bounded import WhatIf
from ansible_collections.composable.infra.controller.ui.whatif.question import Question

Json = dict[str, t.Any]
QUESTION = Question(({"change": "hold"},), None)
ECHO = ("import json, os, sys; "
        "print(json.dumps({'read': sys.stdin.read(), 'limits': sys.argv[1:], 'env': dict(os.environ)}))")
# Says which process it is, by a pipe of the test, and then never ends.
HANG = "import os, sys; os.write({pipe}, str(os.getpid()).encode()); sys.stdin.read(); import time; time.sleep(1000)"


def written(question: Json, file: t.IO[str]) -> str:
    """A capture that is only the question."""
    file.write(json.dumps(question))
    return ""


def asking(program: str, seconds: float = 30.0, write: bounded.Write = written) -> WhatIf:
    """Questions that this Python program answers."""
    return WhatIf(write, (sys.executable, "-c", program), seconds)


class Hanging:
    """A question whose child never ends. ``pid``: of the child, which has said so itself."""

    def __init__(self) -> None:
        read, write = os.pipe()
        # A child inherits no open file, so it opens the pipe by the path that it has in this process.
        program = HANG.replace("{pipe}", f"os.open('/proc/{os.getpid()}/fd/{write}', os.O_WRONLY)")
        self.asked = asking(program)
        self.page, connection = socket.socketpair()
        self.asked.adopt(connection, QUESTION)
        self.pid = int(os.read(read, 64))
        os.close(read)
        os.close(write)

    def ended(self) -> bool:
        """Whether the child is gone, and waited for."""
        while self.asked.busy:
            threading.Event().wait(0.01)
        return not Path(f"/proc/{self.pid}").exists()
