# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Status by status: which class of error, and what its message names."""

from __future__ import annotations

import email.utils
import time

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    Changed,
    FabricError,
    Missing,
    Refused,
    Unauthorized,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.http_status import (
    error_for_status,
    malformed,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import ErrorBody, Request
from ansible_collections.composable.infra.plugins.module_utils.net.client import Response

READ = Request("GET", "/x", "read machine m")
CHANGE = Request("PATCH", "/x", "attach an A100 to machine m", effect=True)
SAID = ErrorBody("E020402", "machine not found")


def of(status: int, call: Request = READ, said: ErrorBody | None = SAID, retry_after: str = "") -> FabricError:
    response = Response(status, {"retry-after": retry_after}, b"")
    return error_for_status(response, call, said, "text/html, not the form that is expected")


@pytest.mark.parametrize(
    ("status", "reading", "changing"),
    [
        (301, Unavailable, Unavailable),
        (400, Refused, Refused),
        (401, Unauthorized, Unauthorized),
        (403, Unauthorized, Unauthorized),
        (404, Missing, Missing),
        (408, Unavailable, Unavailable),
        (409, Busy, Busy),
        (412, Changed, Changed),
        (422, Refused, Refused),
        (423, Busy, Busy),
        (428, Changed, Changed),
        (429, Busy, Busy),
        (500, Unavailable, Uncertain),
        (502, Unavailable, Uncertain),
        (503, Unavailable, Unavailable),
        (504, Unavailable, Uncertain),
    ],
)
def test_the_class_of_a_status(status: int, reading: type[FabricError], changing: type[FabricError]) -> None:
    assert of(status).__class__ is reading
    assert of(status, CHANGE).__class__ is changing


def test_the_message_names_what_failed_and_the_managers_words_and_code() -> None:
    error = of(404)
    assert str(error) == "cannot read machine m: the CDI Manager answered 404: machine not found [E020402]"
    assert (error.code, error.detail) == ("E020402", "machine not found")


def test_a_404_of_something_in_front_of_the_manager_is_not_a_missing_machine() -> None:
    error = of(404, said=None)
    assert error.__class__ is Unavailable
    assert "text/html" in str(error)
    assert "check endpoint" in str(error)
    assert error.code is None


def test_a_refusal_in_a_foreign_form_is_not_the_managers() -> None:
    assert of(400, CHANGE, said=None).__class__ is Unavailable


@pytest.mark.parametrize(
    ("value", "seconds"), [("7", 7.0), ("100000", 300.0), ("soon", None), ("", None), ("-1", None)]
)
def test_retry_after(value: str, seconds: float | None) -> None:
    for status in (429, 503):
        error = of(status, retry_after=value)
        assert isinstance(error, (Busy, Unavailable))
        assert error.retry_after == seconds


def test_retry_after_may_be_a_date() -> None:
    soon = email.utils.formatdate(time.time() + 60, usegmt=True)
    past, future = "Mon, 01 Jan 2001 00:00:00 GMT", "Tue, 01 Jan 2999 00:00:00 GMT"
    for date, least, most in ((soon, 55, 61), (past, 0, 0), (future, 300, 300)):
        error = of(503, retry_after=date)
        assert isinstance(error, Unavailable)
        assert error.retry_after is not None
        assert least <= error.retry_after <= most


def test_a_success_that_cannot_be_understood_is_uncertain_only_after_a_change() -> None:
    assert malformed(READ, "it is empty").__class__ is Unavailable
    error = malformed(CHANGE, "it is empty")
    assert error.__class__ is Uncertain
    assert "attach an A100 to machine m" in str(error)
    assert "it may have taken effect" in str(error)
