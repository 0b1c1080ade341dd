# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong between us and a server: always told with whether the request may have had its effect."""

from __future__ import annotations


class BadResponse(Exception):
    """What came back is not HTTP/1.1 as it was asked for."""


class TooLong(BadResponse):
    """The body has more bytes than the client reads."""


class BadHeader(ValueError):
    """A header that no request can carry; the text names it, never its value."""


class NoResponse(Exception):
    """No whole response came.

    ``cause``: OSError (TimeoutError, ssl.SSLError and ConnectionError among them), BadResponse, or BadHeader.
    ``sent``: the request had left, so it may have had its effect; False is certain. ``by_proxy``: it is the proxy
    that let us down, before the server was reached.
    """

    def __init__(self, cause: Exception, *, sent: bool, by_proxy: bool = False) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.cause = cause
        self.sent = sent
        self.by_proxy = by_proxy
