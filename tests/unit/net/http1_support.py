# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_http1.py` and others share."""

from __future__ import annotations

from collections.abc import Iterable


class Wire:
    """Gives out what a server sent, in the given pieces; then the end."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.left = [piece for piece in pieces if piece]
        self.sent: list[bytes] = []
        self.timeouts: list[float] = []
        self.closed = False

    def recv(self, size: int, /) -> bytes:
        if not self.left:
            return b""
        piece, rest = self.left[0][:size], self.left[0][size:]
        self.left[:1] = [rest] if rest else []
        return piece

    def sendall(self, data: bytes, /) -> None:
        self.sent.append(data)

    def settimeout(self, seconds: float, /) -> None:
        self.timeouts.append(seconds)

    def fileno(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True
