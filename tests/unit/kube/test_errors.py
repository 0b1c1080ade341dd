# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each answer of the API server becomes the class that callers decide by."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube import errors
from ansible_collections.composable.infra.plugins.module_utils.kube.client.transport import next_delay
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Unreachable


def status(code: int, reason: str = "", **more: Any) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": "why"} | more


CLASSES = [
    (400, "BadRequest", errors.Invalid),
    (401, "Unauthorized", errors.Unauthorized),
    (403, "Forbidden", errors.Forbidden),
    (404, "NotFound", errors.NotServed),
    (409, "AlreadyExists", errors.AlreadyExists),
    (409, "Conflict", errors.Conflict),
    (409, "", errors.Conflict),
    (410, "Expired", errors.Gone),
    (410, "Gone", errors.Gone),
    (422, "Invalid", errors.Invalid),
    (429, "TooManyRequests", errors.TooManyRequests),
    (500, "InternalError", ApiError),
    (503, "ServiceUnavailable", errors.Unavailable),
    (504, "Timeout", ApiError),
]


def test_version_of_the_future_has_its_own_class_and_is_not_waited_for() -> None:
    """As API servers answer after etcd was restored: the version may be reached in hours."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    answer = status(504, "Timeout", details={"causes": [cause], "retryAfterSeconds": 1})
    error = errors.from_response(504, json.dumps(answer).encode(), "GET /api/v1/nodes")
    assert type(error) is errors.TooNew
    assert next_delay(error, "GET", 1) is None


@pytest.mark.parametrize(("code", "reason", "kind"), CLASSES)
def test_class_of_a_status(code: int, reason: str, kind: type[ApiError]) -> None:
    error = errors.from_response(code, json.dumps(status(code, reason)).encode(), "GET /x")
    assert error.__class__ is kind
    assert error.status == code
    assert error.reason == reason


@pytest.mark.parametrize(("code", "kind"), [(404, errors.NotServed), (502, ApiError), (503, errors.Unavailable)])
def test_class_of_plain_text(code: int, kind: type[ApiError]) -> None:
    error = errors.from_response(code, b"page\n  text \xff", "GET /x")
    assert error.__class__ is kind
    assert error.message.startswith("GET /x: ")


def test_long_text_is_cut() -> None:
    assert len(errors.from_response(500, b"x" * 10_000, "GET /x").message) < 400


def test_absent_object_and_unserved_resource_differ() -> None:
    absent = errors.from_status(status(404, "NotFound", details={"name": "n0", "kind": "nodes"}), 404, "GET /n")
    unserved = errors.from_response(404, b"404 page not found\n", "GET /apis/cro/v1/x")
    assert isinstance(absent, errors.NotFound)
    assert isinstance(unserved, errors.NotServed)
    assert not isinstance(unserved, errors.NotFound)
    assert absent.message == "why"
    assert "GET /apis/cro/v1/x" in str(unserved)
    assert "CRD" in str(unserved)


def test_another_uid_is_a_conflict_although_the_server_says_invalid() -> None:
    causes = [{"reason": "FieldValueInvalid", "field": "metadata.uid", "message": "field is immutable"}]
    error = errors.from_status(status(422, "Invalid", details={"name": "c", "causes": causes}))
    assert error.__class__ is errors.Conflict


def test_retry_after_of_a_status() -> None:
    assert errors.from_status(status(429, "TooManyRequests", details={"retryAfterSeconds": 7})).retry_after == 7.0
    assert errors.from_status(status(429, "TooManyRequests")).retry_after == 1.0
    assert errors.from_status(status(409, "Conflict")).retry_after is None


def failure(code: int, retry_after: float | None = None) -> ApiError:
    error = errors.from_status(status(code))
    error.retry_after = retry_after
    return error


AGAIN: list[tuple[ApiError, str, int]] = [
    (failure(429, 1.0), "POST", 1),
    (failure(429, 1.0), "POST", 9),
    (failure(503, 2.0), "PATCH", 1),
    (failure(500, 2.0), "DELETE", 1),
    (failure(503), "GET", 1),
    (Unreachable("x", sent=True), "GET", 1),
    (Unreachable("x", sent=True), "GET", 2),
    (Unreachable("x", sent=False), "POST", 1),
]
NEVER: list[tuple[ApiError, str, int]] = [
    (failure(429, 1.0), "GET", 10),
    (failure(503), "POST", 1),
    (failure(500), "GET", 1),
    (failure(504), "POST", 1),
    (failure(409), "PUT", 1),
    (failure(404), "GET", 1),
    (Unreachable("x", sent=True), "POST", 1),
    (Unreachable("x", sent=True), "GET", 3),
    (Unreachable("x", sent=False), "POST", 3),
    (Unreachable("x", permanent=True), "GET", 1),
]


@pytest.mark.parametrize(("error", "method", "tries"), AGAIN)
def test_what_had_no_effect_is_repeated(error: ApiError, method: str, tries: int) -> None:
    delay = next_delay(error, method, tries)
    assert delay is not None
    assert 0 < delay < 20


@pytest.mark.parametrize(("error", "method", "tries"), NEVER)
def test_what_may_have_had_an_effect_is_not_repeated(error: ApiError, method: str, tries: int) -> None:
    assert next_delay(error, method, tries) is None


@pytest.mark.parametrize(("wanted", "least", "most"), [(0.0, 0.1, 0.13), (3.0, 3.0, 3.75), (900.0, 10.0, 12.5)])
def test_the_server_says_when_within_bounds(wanted: float, least: float, most: float) -> None:
    delay = next_delay(failure(429, wanted), "GET", 1)
    assert delay is not None
    assert least <= delay <= most
