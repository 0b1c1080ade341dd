# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Credentials of requests: each source returns the value of the Authorization header."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from ..errors import BadKubeconfig

TOKEN_FILE_TTL = 60.0


class Authorization(Protocol):
    """Called before each request. ``refresh`` requests a newer value after a 401."""

    def __call__(self, refresh: bool = False) -> str | None:
        """Return the header's value, or None for no header."""


class Fixed:
    """A token or password that never changes."""

    def __init__(self, value: str | None) -> None:
        self._value = value

    def __call__(self, refresh: bool = False) -> str | None:
        """Return the same value each time."""
        return self._value

    @classmethod
    def bearer(cls, token: str) -> Fixed:
        """Return a fixed token."""
        return cls(f"Bearer {token.strip()}")

    @classmethod
    def basic(cls, username: str, password: str) -> Fixed:
        """Return a name and password, for HTTP Basic authentication."""
        return cls("Basic " + base64.b64encode(f"{username}:{password}".encode()).decode())


class TokenFile:
    """A token in a file that another program rotates (kubelet's projected service account token).

    The file is read again when the token is a minute old, and after a 401. If the file cannot be
    read, the last token stays, as in client-go. Raise BadKubeconfig if the first read fails.
    """

    def __init__(
        self,
        path: str,
        source: str,
        field: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._value = self._read_first(source, field)
        self._read_at = clock()

    def __call__(self, refresh: bool = False) -> str | None:
        """Return the newest token that could be read."""
        if not refresh and self._clock() - self._read_at < TOKEN_FILE_TTL:
            return self._value
        with self._lock:
            self._reread()
            return self._value

    def _read_first(self, source: str, field: str) -> str:
        try:
            return self._read()
        except (OSError, ValueError) as problem:
            raise BadKubeconfig(source, field, f"cannot read a token from {self._path}: {problem}") from None

    def _reread(self) -> None:
        try:
            self._value = self._read()
            self._read_at = self._clock()
        except (OSError, ValueError):
            return

    def _read(self) -> str:
        with open(self._path, encoding="ascii") as handle:
            token = handle.read().strip()
        if not token:
            raise ValueError("the file is empty")
        return f"Bearer {token}"


class LibraryAuthorization:
    """Credentials of an exec or auth-provider user, renewed by the library ``kubernetes``."""

    def __init__(self, configuration: Any) -> None:
        self._configuration = configuration
        self._lock = threading.Lock()

    def __call__(self, refresh: bool = False) -> str | None:
        """Return the library's credentials. It runs the plugin again after they expired."""
        with self._lock:
            for name in ("BearerToken", "authorization"):
                value = self._configuration.get_api_key_with_prefix(name)
                if value:
                    return str(value)
        return None
