# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Free ports for several labs that start at the same time.

The ports are below the usual ephemeral range, so that no outgoing connection takes one between the
choice and its use. An abstract socket per port reserves it against other labs until the component
listens.
"""

from __future__ import annotations

import random
import socket
from types import TracebackType

from ansible_collections.composable.infra.lab.errors import LabError

_FIRST, _LAST = 20000, 32000


class PortClaim:
    """Ports that no other lab of this machine chooses while the claim is open."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def __enter__(self) -> PortClaim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for held in self._held:
            held.close()

    def take(self) -> int:
        """Claim a free port on loopback and return it. Raise LabError if there is none."""
        for port in random.sample(range(_FIRST, _LAST), 500):
            if self._claim(port):
                if is_free(port):
                    return port
                self._held.pop().close()
        raise LabError(f"no free port found between {_FIRST} and {_LAST} on 127.0.0.1")

    def _claim(self, port: int) -> bool:
        held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            held.bind(f"\0composable-infra-lab-port-{port}")
        except OSError:
            held.close()
            return False
        self._held.append(held)
        return True


def is_free(port: int) -> bool:
    """Return whether a program can listen on `port` at 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
