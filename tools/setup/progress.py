# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print a few lines of progress instead of pip's many lines."""

from __future__ import annotations

import re
import time


class Progress:
    """Counts packages in pip's output and prints one line at most every `every` seconds."""

    def __init__(self, expected: int, every: float = 5.0) -> None:
        self.expected = expected
        self.every = every
        self.seen: set[str] = set()
        self.told = time.monotonic()

    def take(self, line: str) -> None:
        """Handle a line of pip's output."""
        found = re.match(r"Collecting ([A-Za-z0-9._-]+)", line)
        if found:
            self.seen.add(found.group(1).lower())
            self.tell(found.group(1))
        elif line.startswith("Installing collected packages"):
            print(f"set-up:   {len(self.seen)} packages fetched, unpacking them", flush=True)

    def tell(self, name: str) -> None:
        """Print the progress, unless that was done a moment ago."""
        now = time.monotonic()
        if now - self.told >= self.every:
            self.told = now
            print(f"set-up:   package {len(self.seen)} of about {self.expected}: {name}", flush=True)
