# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of requests, which always show whether the request may have taken effect."""

from __future__ import annotations


class BadResponse(Exception):
    """The response is not HTTP/1.1 as requested."""


class TooLong(BadResponse):
    """The body has more bytes than the client reads."""


class BadHeader(ValueError):
    """A header that cannot be sent. The text has its name but never its value."""


class NoResponse(Exception):
    """No whole response came.

    ``cause`` is an OSError (such as TimeoutError, ssl.SSLError or ConnectionError), BadResponse or
    BadHeader. ``sent`` means that the request may have taken effect. False is certain. ``by_proxy``
    means that the proxy failed before the server was reached.
    """

    def __init__(self, cause: Exception, *, sent: bool, by_proxy: bool = False) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.cause = cause
        self.sent = sent
        self.by_proxy = by_proxy
