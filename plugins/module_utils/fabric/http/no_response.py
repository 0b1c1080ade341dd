# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Error for a request without a response: its possible effect, its cause and the option to set."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

from ...net.errors import BadHeader, NoResponse, TooLong
from ...net.proxy import variable
from ...net.tls import is_refused_by_server
from ..config import FabricConfig
from ..errors import FabricError, Unavailable, Uncertain
from . import tls
from .request import Request


def error_for_no_response(lost: NoResponse, request: Request, config: FabricConfig, endpoint: str) -> FabricError:
    """Return Uncertain if a changing request was sent, otherwise Unavailable.

    ``passing`` means that an immediate repeat may succeed. ``code`` is ``certificate`` if one side
    rejected the other's certificate.
    """
    text = f"cannot {request.purpose}: {endpoint}: {_why(lost, request, config, endpoint)}"
    if lost.sent and request.effect:
        return Uncertain(f"{text}. It may have taken effect")
    certificate = is_about_certificates(lost)
    passing = not (certificate or isinstance(lost.cause, (TimeoutError, BadHeader, TooLong)))
    return Unavailable(text, passing=passing, code="certificate" if certificate else None)


def is_about_certificates(lost: NoResponse) -> bool:
    """Return whether we rejected the manager's certificate, or the manager rejected ours."""
    ours = isinstance(lost.cause, ssl.SSLCertVerificationError) or is_refused_by_server(lost.cause)
    return ours and not lost.sent and not lost.by_proxy


def _why(lost: NoResponse, request: Request, config: FabricConfig, endpoint: str) -> str:
    cause = lost.cause
    if isinstance(cause, TimeoutError):
        return (f"no complete reply within {request.timeout or config.read_timeout:g} s" if lost.sent
                else f"no connection within {config.connect_timeout:g} s (connect_timeout)")
    if isinstance(cause, TooLong):
        return str(cause)
    if lost.sent:
        return "the connection broke before the reply was complete"
    if lost.by_proxy:
        return f"the proxy named by {variable(endpoint)} refused the connection"
    if isinstance(cause, BadHeader):
        return str(cause)
    if isinstance(cause, ssl.SSLError):
        return tls.explain(cause, config)
    if isinstance(cause, socket.gaierror):
        return f"the host name {urlsplit(endpoint).hostname} cannot be resolved: check endpoint"
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused: no process listens there"
    return f"no connection ({getattr(cause, 'strerror', None) or cause})"
