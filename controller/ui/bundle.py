# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The static files of the page.

They are a fixed list, read once, so that no path leads to another file.
"""

from __future__ import annotations

import hashlib
import typing as t
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
INDEX: t.Final = "index.html"
KINDS: t.Final = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
                  ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
# Allow no content from other sites, no inline script or style, no frame around it, and no form to
# another site.
SECURITY: t.Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                               "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A static file. ``kind``: its media type. ``tag``: changes with its content."""

    kind: str
    data: bytes
    tag: str


def bundle(folder: Path = FOLDER) -> dict[str, StaticFile]:
    """Return all files below ``folder`` by the name in their address.

    The empty name is the page itself.
    """
    paths = [path for path in sorted(folder.iterdir()) if path.suffix in KINDS]
    found = {path.name: static_file(path.suffix, path.read_bytes()) for path in paths}
    return {**found, "": found[INDEX]}


def static_file(suffix: str, data: bytes) -> StaticFile:
    """Return a file with these bytes. ``suffix``: a key of KINDS."""
    return StaticFile(KINDS[suffix], data, f'"{hashlib.sha256(data).hexdigest()[:16]}"')
