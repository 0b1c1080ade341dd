# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where traces go: the option, and the variables of OpenTelemetry."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.controller.tracing.settings import TraceSettings, trace_settings
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig

BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


def read(endpoint: str | None = None, **variables: str) -> tuple[TraceSettings | None, str]:
    """What comes of an option and variables; their names come without OTEL_."""
    return trace_settings(endpoint, {f"OTEL_{name}": value for name, value in variables.items()}, "service", "1.0")


def used(endpoint: str | None = None, **variables: str) -> TraceSettings:
    """The same where traces are sent."""
    settings, problem = read(endpoint, **variables)
    assert (settings is not None, problem) == (True, "")
    assert settings is not None
    return settings


def test_off_by_default() -> None:
    assert read() == (None, "")
    assert read(SERVICE_NAME="x", TRACES_SAMPLER="nonsense", EXPORTER_OTLP_PROTOCOL="grpc") == (None, "")


@pytest.mark.parametrize(("endpoint", "variables", "url"), [
    ("http://collector:4318", {}, "http://collector:4318/v1/traces"),
    ("https://collector/otlp/", {}, "https://collector/otlp/v1/traces"),
    (None, {"EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, "http://collector:4318/v1/traces"),
    (None, {"EXPORTER_OTLP_ENDPOINT": "http://collector:4318/x/"}, "http://collector:4318/x/v1/traces"),
    (None, {"EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/here"}, "http://collector:4318/here"),
    (None, {"EXPORTER_OTLP_TRACES_ENDPOINT": "http://a/here", "EXPORTER_OTLP_ENDPOINT": "http://b"}, "http://a/here"),
    ("http://a", {"EXPORTER_OTLP_TRACES_ENDPOINT": "http://b/here"}, "http://a/v1/traces")])
def test_endpoint(endpoint: str | None, variables: dict[str, str], url: str) -> None:
    assert used(endpoint, **variables).url == url


def test_defaults_are_those_of_the_specification() -> None:
    settings = used("http://collector:4318")
    assert (settings.timeout, settings.gzip, settings.ratio, settings.headers) == (10.0, False, 1.0, {})
    assert settings.resource == {"service.name": "service", "service.version": "1.0"}


def test_variables_for_traces_come_before_those_for_all() -> None:
    settings = used("http://c", EXPORTER_OTLP_TIMEOUT="2000", EXPORTER_OTLP_TRACES_TIMEOUT="500",
                    EXPORTER_OTLP_COMPRESSION="gzip", EXPORTER_OTLP_TRACES_COMPRESSION="",
                    EXPORTER_OTLP_HEADERS="api-key=a%20b,tenant=1", EXPORTER_OTLP_TRACES_HEADERS="api-key=c%3Dd")
    assert (settings.timeout, settings.gzip, dict(settings.headers)) == (0.5, True, {"api-key": "c=d"})


def test_names_of_the_process() -> None:
    settings = used("http://c", RESOURCE_ATTRIBUTES="service.name=ours, k8s.cluster.name = a%2Cb")
    assert settings.resource["service.name"] == "ours"
    assert settings.resource["k8s.cluster.name"] == "a,b"
    named = used("http://c", RESOURCE_ATTRIBUTES="service.name=ours", SERVICE_NAME="mine")
    assert named.resource["service.name"] == "mine"


@pytest.mark.parametrize("variables", [{"SDK_DISABLED": "TRUE"}, {"TRACES_EXPORTER": "none"},
                                       {"TRACES_EXPORTER": "console"}, {"TRACES_SAMPLER": "always_off"},
                                       {"TRACES_SAMPLER": "traceidratio", "TRACES_SAMPLER_ARG": "0"}])
def test_switched_off(variables: dict[str, str]) -> None:
    assert read("http://collector:4318", **variables) == (None, "")


@pytest.mark.parametrize(("sampler", "arg", "ratio"), [
    ("always_on", "", 1.0), ("parentbased_always_on", "0.5", 1.0), ("traceidratio", "0.25", 0.25),
    ("parentbased_traceidratio", "", 1.0)])
def test_sampler(sampler: str, arg: str, ratio: float) -> None:
    assert used("http://c", TRACES_SAMPLER=sampler, TRACES_SAMPLER_ARG=arg).ratio == ratio


@pytest.mark.parametrize(("variables", "words"), [
    ({"EXPORTER_OTLP_ENDPOINT": "collector:4317"}, "OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317' is"),
    ({"EXPORTER_OTLP_ENDPOINT": "http://c:99999"}, "OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:99999' is not allowed"),
    ({"EXPORTER_OTLP_ENDPOINT": "http://c", "EXPORTER_OTLP_PROTOCOL": "grpc"},
     "OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' is not supported. It must be http/protobuf"),
    ({"EXPORTER_OTLP_ENDPOINT": "http://c", "TRACES_SAMPLER": "jaeger_remote"}, "OTEL_TRACES_SAMPLER: 'jaeger_remote'"),
    ({"EXPORTER_OTLP_ENDPOINT": "http://c", "TRACES_SAMPLER": "traceidratio", "TRACES_SAMPLER_ARG": "2"},
     "OTEL_TRACES_SAMPLER_ARG: '2' is not allowed. It must be a number from 0 to 1"),
    ({"EXPORTER_OTLP_ENDPOINT": "http://c", "EXPORTER_OTLP_TIMEOUT": "soon"}, "OTEL_EXPORTER_OTLP_TIMEOUT: 'soon'"),
    ({"EXPORTER_OTLP_ENDPOINT": "http://c", "EXPORTER_OTLP_COMPRESSION": "zstd"}, "must be gzip or none"),
    ({"EXPORTER_OTLP_ENDPOINT": "http://c", "RESOURCE_ATTRIBUTES": "a=1,b"}, "its part 2 is not allowed"),
    ({"EXPORTER_OTLP_ENDPOINT": "https://c", "EXPORTER_OTLP_CERTIFICATE": "/none.pem"},
     "OTEL_EXPORTER_OTLP_CERTIFICATE: '/none.pem' cannot be read: No such file")])
def test_a_variable_that_cannot_be_used_is_told_and_nothing_is_traced(variables: dict[str, str], words: str) -> None:
    settings, problem = read(**variables)
    assert settings is None
    assert words in problem


@pytest.mark.parametrize("text", ["token=se%0Acret", "se%0Dcret=x", "se cret=x"])
def test_a_header_that_cannot_be_sent_is_told_without_its_value(text: str) -> None:
    settings, problem = read("http://c", EXPORTER_OTLP_HEADERS=text)
    assert settings is None
    assert problem.startswith("OTEL_EXPORTER_OTLP_HEADERS: a header is not allowed")
    assert "cret" not in problem


def test_headers_are_not_shown() -> None:
    assert "secret" not in repr(used("http://c", EXPORTER_OTLP_HEADERS="authorization=Bearer%20secret"))


@pytest.mark.parametrize(("endpoint", "words"), [
    ("collector", "must be http"), ("", "must be http"), ("grpc://c:4317", "must be http"), ("http://", "must be http"),
    ("http://user:secret@c:4318", "OTEL_EXPORTER_OTLP_HEADERS")])
def test_an_option_that_cannot_be_used_is_an_error(endpoint: str, words: str) -> None:
    with pytest.raises(BadConfig, match="--otlp-endpoint: ") as raised:
        read(endpoint)
    assert words in str(raised.value)


def test_a_secret_in_the_url_is_not_shown() -> None:
    given: list[t.Any] = []
    with pytest.raises(BadConfig) as raised:
        given.append(read("http://user:secret@c:4318"))
    assert "secret" not in str(raised.value)
    assert "secret" not in read(EXPORTER_OTLP_ENDPOINT="http://user:secret@c:4318")[1]
