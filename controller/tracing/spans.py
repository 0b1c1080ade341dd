# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spans as OTLP has them in JSON: ids in hexadecimal, 64-bit numbers as text, enums as numbers, keys in lowerCamelCase.

Source: github.com/open-telemetry/opentelemetry-proto, docs/specification.md (JSON Protobuf Encoding) and trace.proto.
"""

from __future__ import annotations

import functools
import hashlib
import re
import secrets
import typing as t
from collections.abc import Iterable, Mapping

Json = dict[str, t.Any]
Attributes = Mapping[str, "str | int | float"]
INTERNAL, CLIENT = 1, 3
ERROR = 2
SCOPE = "composable.infra"
# What asks another system for something; all else is our own work or waiting.
ASKS = frozenset({"attach"})
# Texts of managers and nodes go into attributes and status; longer ones are cut.
LONGEST_TEXT = 1024
_UUID = re.compile(r"[0-9a-f]{32}")
# W3C Trace Context Level 2: the right-most 56 bits of a trace id are random.
_RANDOM_BITS = 56


@functools.lru_cache(2048)
def trace_id(claim: str) -> str:
    """The trace of a claim: its uid, which is 16 bytes; the hash of one that is no UUID."""
    plain = claim.replace("-", "").lower()
    return plain if _UUID.fullmatch(plain) and int(plain, 16) else hashlib.sha256(claim.encode()).hexdigest()[:32]


def root_id(trace: str) -> str:
    """The span that all spans of a trace are below: every process knows it without being told."""
    return hashlib.sha256(f"root {trace}".encode()).hexdigest()[:16]


def is_sampled(trace: str, ratio: float) -> bool:
    """Whether a trace is among this part of all; every process decides the same."""
    return int(trace, 16) % (1 << _RANDOM_BITS) < ratio * (1 << _RANDOM_BITS)


def span(claim: str, name: str, began: float, ended: float, attributes: Attributes, error: str = "",
         root: bool = False, parent: str = "") -> Json:
    """One span; times in seconds since the epoch. ``parent``: its id, that of the root where none is given."""
    trace = trace_id(claim)
    made: Json = {
        "traceId": trace, "spanId": root_id(trace) if root else secrets.token_hex(8), "name": name,
        "kind": CLIENT if name in ASKS else INTERNAL,
        "startTimeUnixNano": _nanoseconds(began), "endTimeUnixNano": _nanoseconds(max(began, ended)),
        "attributes": [_attribute(key, value) for key, value in attributes.items()]}
    if not root:
        made["parentSpanId"] = parent or root_id(trace)
    if error:
        made["status"] = {"code": ERROR, "message": error[:LONGEST_TEXT]}
    return made


def request(spans: Iterable[Json], resource: Mapping[str, str], version: str) -> Json:
    """An ExportTraceServiceRequest."""
    return {"resourceSpans": [{
        "resource": {"attributes": [_attribute(key, value) for key, value in resource.items()]},
        "scopeSpans": [{"scope": {"name": SCOPE, "version": version}, "spans": list(spans)}]}]}


def _attribute(key: str, value: str | int | float) -> Json:
    if isinstance(value, str):
        return {"key": key, "value": {"stringValue": value[:LONGEST_TEXT]}}
    if isinstance(value, int):
        return {"key": key, "value": {"intValue": str(value)}}
    return {"key": key, "value": {"doubleValue": value}}


def _nanoseconds(seconds: float) -> str:
    return str(max(0, round(seconds * 1e6)) * 1000)
