# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request without a response: uncertain only when a change had left, and a sentence that says what to set."""

from __future__ import annotations

import socket
import ssl

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable, Uncertain
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.no_response import (
    error_for_no_response,
    is_about_certificates,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import Request
from ansible_collections.composable.infra.plugins.module_utils.net.errors import (
    BadHeader,
    BadResponse,
    NoResponse,
    TooLong,
)

ADDRESS = "https://fm.test:8443"
CONFIG = FabricConfig.from_dict({"manager": "nec", "endpoint": ADDRESS, "connect_timeout": 3, "read_timeout": 7})
READ, CHANGE = Request("GET", "/x", "read x"), Request("PATCH", "/x", "change x", effect=True, timeout=9)


def alert(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "[SSL] alert")
    error.reason = reason
    return error


def unsigned() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("failed")
    error.verify_code, error.verify_message = 20, "words of OpenSSL"
    return error


CAUSES: list[Exception] = [
    ConnectionResetError("gone"), TimeoutError(), BadResponse("no HTTP"), TooLong("longer than 9 bytes"),
    alert("SSLV3_ALERT_HANDSHAKE_FAILURE"),
]


@pytest.mark.parametrize("cause", CAUSES)
def test_a_change_that_had_left_is_uncertain_and_nothing_else_is(cause: Exception) -> None:
    lost = NoResponse(cause, sent=True)
    error = error_for_no_response(lost, CHANGE, CONFIG, ADDRESS)
    assert error.__class__ is Uncertain
    assert str(error).startswith(f"cannot change x: {ADDRESS}: ")
    assert str(error).endswith(". It may have taken effect")
    assert error_for_no_response(lost, READ, CONFIG, ADDRESS).__class__ is Unavailable
    assert error_for_no_response(NoResponse(cause, sent=False), CHANGE, CONFIG, ADDRESS).__class__ is Unavailable


@pytest.mark.parametrize(
    ("cause", "by_proxy", "words", "passing", "code"),
    [
        (TimeoutError(), False, "no connection within 3 s (connect_timeout)", False, None),
        (TimeoutError(), True, "no connection within 3 s (connect_timeout)", False, None),
        (ConnectionRefusedError(), False, "the connection was refused: no process listens there", True, None),
        (ConnectionRefusedError(), True, "the proxy named by HTTPS_PROXY refused", True, None),
        (unsigned(), True, "the proxy named by HTTPS_PROXY refused the connection", True, None),
        (socket.gaierror(), False, "the host name fm.test cannot be resolved: check endpoint", True, None),
        (BadHeader("If-Match has characters"), False, "If-Match has characters", False, None),
        (unsigned(), False, "set ca_path or ca_pem", False, "certificate"),
        (alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"), False, "set client_cert_path", False, "certificate"),
        (alert("WRONG_VERSION_NUMBER"), False, "does not speak TLS on this port", True, None),
        (OSError(113, "No route to host"), False, "no connection (No route to host)", True, None),
    ],
)
def test_what_had_not_left_says_why(
    cause: Exception, by_proxy: bool, words: str, passing: bool, code: str | None
) -> None:
    lost = NoResponse(cause, sent=False, by_proxy=by_proxy)
    error = error_for_no_response(lost, CHANGE, CONFIG, ADDRESS)
    assert isinstance(error, Unavailable)
    assert words in str(error)
    assert (error.passing, error.code, is_about_certificates(lost)) == (passing, code, code is not None)


def test_how_long_a_reply_was_waited_for_is_the_requests_own_limit_or_the_options() -> None:
    lost = NoResponse(TimeoutError(), sent=True)
    assert "no complete reply within 9 s" in str(error_for_no_response(lost, CHANGE, CONFIG, ADDRESS))
    assert "no complete reply within 7 s" in str(error_for_no_response(lost, READ, CONFIG, ADDRESS))


def test_a_reply_that_is_too_long_is_named_and_not_read_again_at_once() -> None:
    error = error_for_no_response(NoResponse(TooLong("longer than 9 bytes"), sent=True), READ, CONFIG, ADDRESS)
    assert isinstance(error, Unavailable)
    assert "longer than 9 bytes" in str(error)
    assert not error.passing
