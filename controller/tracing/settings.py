# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of traces, from the option and from OpenTelemetry's environment variables.

Source: opentelemetry.io/docs/specs/otel/protocol/exporter and
.../specs/otel/configuration/sdk-environment-variables. An empty variable counts as unset. If a
variable cannot be used, the log reports it, and nothing is traced. Such variables are often set in
all pods alike, and must not prevent the program from attaching devices.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_PATH = "/v1/traces"
PROTOCOL = "http/protobuf"
ALWAYS, NEVER, RATIO = "always_on", "always_off", "traceidratio"
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """Settings of the exporter.

    ``url``: where batches are posted. ``headers``: additional headers, which may hold a token.
    ``timeout``: seconds for a batch. ``ratio``: the part of all claims that is traced.
    ``resource``: attributes of the process.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 10.0
    gzip: bool = False
    ratio: float = 1.0
    resource: dict[str, str] = field(default_factory=dict)


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    """Add the option for the address to which a program sends its traces."""
    parser.add_argument("--otlp-endpoint", metavar="URL",
                        help="address of an OpenTelemetry collector. Traces of claims are sent to "
                             f"URL{TRACES_PATH} as OTLP/HTTP with protobuf (default: the variables "
                             "OTEL_EXPORTER_OTLP_..., else no traces)")


def trace_settings(endpoint: str | None, environ: Mapping[str, str], service: str,
                   version: str) -> tuple[TraceSettings | None, str]:
    """Return the settings, None for no traces, and why the variables cannot be used, empty if they
    can.

    The SDK reads the variables of TLS itself. ``endpoint``: of the option, which takes precedence
    over the variables. ``service``: name of the program. Raises BadConfig if the option cannot be
    used.
    """
    given = _Variables(environ)
    if endpoint is not None:
        _check_url("--otlp-endpoint", endpoint)
    try:
        url = _url(endpoint, given)
        if not url or given.get("OTEL_SDK_DISABLED").lower() == "true":
            return None, ""
        return (_settings(url, given, service, version) if _wanted(given) else None), ""
    except BadConfig as error:
        return None, str(error)


class _Variables:
    """Environment variables. Those for traces take precedence over those for all signals."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def get(self, name: str) -> str:
        return self._environ.get(name, "").strip()

    def otlp(self, what: str) -> tuple[str, str]:
        """Return (variable, value) of OTEL_EXPORTER_OTLP_TRACES_``what``, else
        OTEL_EXPORTER_OTLP_``what``.
        """
        names = (f"OTEL_EXPORTER_OTLP_TRACES_{what}", f"OTEL_EXPORTER_OTLP_{what}")
        return next(((name, value) for name in names if (value := self.get(name))), (names[1], ""))


def _url(endpoint: str | None, given: _Variables) -> str:
    if endpoint is not None:
        return endpoint.rstrip("/") + TRACES_PATH
    name, value = given.otlp("ENDPOINT")
    if value:
        _check_url(name, value)
    return value.rstrip("/") + TRACES_PATH if value and name == ENDPOINT else value


def _check_url(name: str, text: str) -> None:
    """Check a URL. Raises BadConfig, without the value if it has a password."""
    try:
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if "@" in text:
        raise BadConfig(f"{name}: the URL holds credentials. Set them in OTEL_EXPORTER_OTLP_HEADERS")
    if not fine:
        raise BadConfig(f"{name}: {text!r} is not allowed. It must be http://HOST:PORT or https://HOST:PORT")


def _wanted(given: _Variables) -> bool:
    """Return whether traces are wanted. Raises BadConfig for a protocol that is not supported."""
    exporters = [each.strip() for each in (given.get("OTEL_TRACES_EXPORTER") or "otlp").split(",")]
    if "otlp" not in exporters:
        return False
    name, protocol = given.otlp("PROTOCOL")
    if protocol and protocol != PROTOCOL:
        raise BadConfig(f"{name}: {protocol!r} is not supported. It must be {PROTOCOL}, usually at port 4318 of the "
                        "collector")
    return ratio(given) > 0


def _settings(url: str, given: _Variables, service: str, version: str) -> TraceSettings:
    name, compression = given.otlp("COMPRESSION")
    if compression not in ("", "none", "gzip"):
        raise BadConfig(f"{name}: {compression!r} is not allowed. It must be gzip or none")
    _check_files(url, given)
    return TraceSettings(url, _headers(given), _timeout(given), compression == "gzip", ratio(given),
                         _resource(given, service, version))


def ratio(given: _Variables) -> float:
    """Return the part of all claims that is traced, 0 to 1. Raises BadConfig."""
    sampler = given.get("OTEL_TRACES_SAMPLER").removeprefix("parentbased_") or ALWAYS
    if sampler not in (ALWAYS, NEVER, RATIO):
        raise BadConfig(f"OTEL_TRACES_SAMPLER: {sampler!r} is not allowed. It must be {ALWAYS}, {NEVER} or {RATIO}, or "
                        "one of them after parentbased_")
    if sampler != RATIO:
        return float(sampler == ALWAYS)
    text = given.get("OTEL_TRACES_SAMPLER_ARG") or "1"
    found = _number(text)
    if not 0 <= found <= 1:
        raise BadConfig(f"OTEL_TRACES_SAMPLER_ARG: {text!r} is not allowed. It must be a number from 0 to 1")
    return found


def _timeout(given: _Variables) -> float:
    """Return the timeout in seconds.

    The variable has milliseconds by OpenTelemetry's specification, though the SDK for Python reads
    seconds.
    """
    name, text = given.otlp("TIMEOUT")
    found = _number(text or "10000")
    if not 1 <= found <= 600_000:
        raise BadConfig(f"{name}: {text!r} is not allowed. It must be milliseconds from 1 to 600000")
    return found / 1000


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _headers(given: _Variables) -> dict[str, str]:
    """Return the additional headers. Their values may be secret, so no error shows them."""
    name, text = given.otlp("HEADERS")
    found = _pairs(name, text)
    for each, value in found.items():
        if not _NAME.fullmatch(each) or not value.isprintable():
            raise BadConfig(f"{name}: a header is not allowed in a request. Its name and value must be printable")
    return found


def _resource(given: _Variables, service: str, version: str) -> dict[str, str]:
    found = {"service.name": service, "service.version": version}
    found |= _pairs("OTEL_RESOURCE_ATTRIBUTES", given.get("OTEL_RESOURCE_ATTRIBUTES"))
    name = given.get("OTEL_SERVICE_NAME")
    return found | ({"service.name": name} if name else {})


def _pairs(variable: str, text: str) -> dict[str, str]:
    """Parse ``key=value`` pairs with commas between them and percent-encoded values, as in W3C
    Baggage.
    """
    found = {}
    for number, pair in enumerate(each for each in text.split(",") if each.strip()):
        key, equals, value = pair.partition("=")
        if not (equals and key.strip()):
            raise BadConfig(f"{variable}: its part {number + 1} is not allowed. It must be key=value")
        found[unquote(key.strip())] = unquote(value.strip())
    return found


def _check_files(url: str, given: _Variables) -> None:
    """Raise BadConfig for a TLS file that cannot be read.

    The SDK would report it only at each batch.
    """
    for what in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY") if url.startswith("https:") else ():
        name, path = given.otlp(what)
        try:
            if path:
                Path(path).read_bytes()
        except OSError as error:
            raise BadConfig(f"{name}: {path!r} cannot be read: {error.strerror}") from None
