# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What comes of traces that are wanted: a tracer, or one sentence why there is none."""

from __future__ import annotations

import logging
import re
import subprocess
import sys

import pytest

from ansible_collections.composable.infra.controller.tracing.start import start_tracer
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig

PROGRAMS = ("controller.main", "controller.agent.main")
EXPORTER = "ansible_collections.composable.infra.controller.tracing.exporter"


@pytest.fixture
def no_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without OpenTelemetry's SDK."""
    for name in [each for each in sys.modules if each.split(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, EXPORTER, raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_does_not_import_the_sdk_before_it_is_wanted(program: str) -> None:
    script = (f"import sys, ansible_collections.composable.infra.{program}; "
              "print([name for name in sys.modules if name.split('.')[0] in ('opentelemetry', 'requests')])")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.usefixtures("no_sdk")
def test_off_needs_no_sdk(caplog: pytest.LogCaptureFixture) -> None:
    assert start_tracer(None, "test") is None
    assert caplog.records == []


@pytest.mark.usefixtures("no_sdk")
def test_an_option_without_the_sdk_is_an_error_of_one_sentence() -> None:
    with pytest.raises(BadConfig) as raised:
        start_tracer("http://127.0.0.1:1", "test")
    assert re.fullmatch(r"--otlp-endpoint: traces need the Python packages opentelemetry-sdk and "
                        r"opentelemetry-exporter-otlp-proto-http \(.*opentelemetry\.sdk.*\)\. "
                        r"Install both, or switch traces off", str(raised.value))


@pytest.mark.usefixtures("no_sdk")
def test_a_variable_without_the_sdk_is_a_warning(monkeypatch: pytest.MonkeyPatch,
                                                 caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    with caplog.at_level(logging.WARNING, "composable.infra"):
        assert start_tracer(None, "test") is None
    (record,) = caplog.records
    assert record.getMessage().startswith("no traces are sent: traces need the Python packages opentelemetry-sdk and ")


def test_a_variable_that_the_sdk_refuses_is_a_warning(monkeypatch: pytest.MonkeyPatch,
                                                      caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "-1")
    with caplog.at_level(logging.WARNING, "composable.infra"):
        assert start_tracer("http://127.0.0.1:1", "test") is None
    assert [record.getMessage() for record in caplog.records] == [
        "no traces are sent: max_export_batch_size must be a positive integer."]


def test_with_the_sdk_a_tracer_starts() -> None:
    tracer = start_tracer("http://127.0.0.1:1", "test")
    assert tracer is not None
    tracer.stop()
    assert tracer.dropped == 0
