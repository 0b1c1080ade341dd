# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log lines for people and for collectors."""

from __future__ import annotations

import json
import logging
import re
import sys
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.controller.logs import (
    LOGGERS,
    JsonFormatter,
    TextFormatter,
    set_up_logging,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.coordination import lease
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import ClaimRef
from ansible_collections.composable.infra.plugins.module_utils.kube.watch import reflector, store

LOGGER = "composable.infra"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """The loggers are as before afterwards."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def record(message: str = "attached %d", *args: object, created: float = 1767323045.6789,
           level: int = logging.INFO, **extra: object) -> logging.LogRecord:
    """A log record."""
    made = logging.LogRecord(LOGGER, level, __file__, 1, message, args, None)
    made.created = created
    made.__dict__.update(extra)
    return made


def test_json_line() -> None:
    line = JsonFormatter().format(record("attached %d", 2, reason="Attached", about="gpu-a"))
    assert json.loads(line) == {"time": "2026-01-02T03:04:05.678Z", "level": "info", "message": "attached 2",
                                "reason": "Attached", "about": "gpu-a"}
    assert "\n" not in line


def test_json_leaves_out_what_the_record_has_not() -> None:
    assert set(json.loads(JsonFormatter().format(record("x")))) == {"time", "level", "message"}


def test_json_escapes_line_breaks_and_keeps_letters() -> None:
    line = JsonFormatter().format(record("a\nb ä \"q\""))
    assert "\n" not in line
    assert "ä" in line
    assert json.loads(line)["message"] == "a\nb ä \"q\""


def test_json_of_an_exception() -> None:
    made = record("failed")
    try:
        raise ValueError("why")
    except ValueError:
        made.exc_info = sys.exc_info()
    line = JsonFormatter().format(made)
    assert "ValueError: why" in json.loads(line)["exception"]
    assert "\n" not in line


def test_text_line() -> None:
    assert TextFormatter().format(record("attached %d", 2, level=logging.WARNING)) == (
        "2026-01-02T03:04:05.678Z WARNING attached 2")


@pytest.mark.parametrize("created", [0.0, 1767323045.0, 1767323045.9999])
def test_milliseconds_have_three_digits(created: float) -> None:
    assert re.match(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", TextFormatter().format(record("x", created=created)))


@pytest.mark.parametrize(("kind", "shape"), [("json", r'^\{"time": '), ("text", r"^\d{4}-.*Z INFO    hello")])
def test_set_up_writes_to_standard_error(kind: str, shape: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(kind, "info")
    logging.getLogger(LOGGER).info("hello")
    written = capsys.readouterr()
    assert re.match(shape, written.err)
    assert written.out == ""


def test_level_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("text", "warning")
    logging.getLogger(LOGGER).info("hello")
    assert capsys.readouterr().err == ""


def test_set_up_twice_writes_once(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("text", "info")
    set_up_logging("text", "info")
    logging.getLogger(LOGGER).info("hello")
    assert capsys.readouterr().err.count("hello") == 1


@pytest.mark.parametrize("module", [reflector, store, lease])
def test_lines_of_every_module_have_time_and_level(module: t.Any, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("text", "info")
    logging.getLogger(module.__name__).warning("watching composabilityrequests: forbidden")
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\S+Z WARNING watching composabilityrequests: forbidden", line)


ONE = (ClaimRef("default/train", "7c1f9a52"),)
TWO = (*ONE, ClaimRef("default/other", "0a1b2c3d"))


def test_a_line_ends_with_the_claim_that_it_is_about() -> None:
    assert TextFormatter().format(record("attached", claims=ONE)).endswith(" attached claim=default/train uid=7c1f9a52")
    assert TextFormatter().format(record("attached", claims=TWO)).endswith(
        " attached claim=default/train,default/other uid=7c1f9a52,0a1b2c3d")
    assert TextFormatter().format(record("attached", claims=())).endswith(" attached")


def test_a_json_line_has_the_claim_as_fields() -> None:
    line = json.loads(JsonFormatter().format(record("attached", claims=TWO)))
    assert (line["claim"], line["uid"]) == ("default/train,default/other", "7c1f9a52,0a1b2c3d")
    assert not {"claim", "uid"} & set(json.loads(JsonFormatter().format(record("attached", claims=()))))
