# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Status by status: which class of error, and what its message names."""

from __future__ import annotations

import email.utils
import re
import time
from pathlib import Path

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
        (302, Unavailable, Uncertain),
        (303, Unavailable, Uncertain),
        (307, Unavailable, Unavailable),
        (400, Refused, Refused),
        (401, Unauthorized, Unauthorized),
        (403, Unauthorized, Unauthorized),
        (404, Missing, Missing),
        (408, Unavailable, Uncertain),
        (409, Busy, Busy),
        (412, Changed, Changed),
        (422, Refused, Refused),
        (423, Busy, Busy),
        (428, Changed, Changed),
        (429, Busy, Busy),
        (499, Unavailable, Uncertain),
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
    assert "Check endpoint" in str(error)
    assert error.code is None


@pytest.mark.parametrize("retry_after", ["", "soon"])
def test_a_503_of_something_in_front_of_the_manager_may_come_after_the_effect(retry_after: str) -> None:
    error = of(503, CHANGE, said=None, retry_after=retry_after)
    assert error.__class__ is Uncertain
    assert "It may have taken effect" in str(error)
    assert of(503, said=None).__class__ is Unavailable
    assert of(503, CHANGE, said=None, retry_after="1").__class__ is Unavailable


def test_a_403_of_something_in_front_of_the_manager_may_come_after_the_effect() -> None:
    assert of(403, CHANGE, said=None).__class__ is Uncertain
    assert of(403, said=None).__class__ is Unauthorized


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
    assert "It may have taken effect" in str(error)


ROW = re.compile(r"^\| ([\d, ]+|other 5xx) \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|$", re.MULTILINE)
PAGE = Path(__file__).parents[4] / "docs" / "contributors" / "conformance.md"


def test_the_table_of_the_docs_is_what_the_code_does() -> None:
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    told = [int(status) for row in rows for status in row[0].replace("other 5xx", "501, 599").split(",")]
    assert {*told} == {301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 408, 409, 410, 412, 422, 423, 428, 429, 499,
                       500, 501, 502, 503, 504, 599}
    for named, *classes in rows:
        for status in map(int, named.replace("other 5xx", "501, 599").split(",")):
            found = [of(status, call, said) for said in (SAID, None) for call in (READ, CHANGE)]
            assert [type(error).__name__ for error in found] == classes, status
