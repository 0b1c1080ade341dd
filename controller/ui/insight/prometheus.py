# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a history from a Prometheus that scrapes the controllers, with DCGM's metrics if it has them.

Source: prometheus.io/docs/prometheus/latest/querying/api, range queries.
"""

from __future__ import annotations

import json
import math
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from ansible_collections.composable.infra.controller.ui.insight.memory import MOST_SERIES
from ansible_collections.composable.infra.controller.ui.insight.span import Points, Series, Span
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.net.client import HttpClient, Timeouts
from ansible_collections.composable.infra.plugins.module_utils.net.errors import NoResponse
from ansible_collections.composable.infra.plugins.module_utils.net.tls import client_context

TIMEOUTS: t.Final = Timeouts(connect=3.0, read=10.0)
DEVICES: t.Final = "max by (state, model, fabric) (composable_devices)"
WAITING: t.Final = "max(composable_claims_waiting)"
ATTEMPTS: t.Final = 'sum(increase(composable_attaches_total{{outcome="{0}"}}[{1:.0f}s]))'
SHORTEST_WINDOW: t.Final = 180.0
SUCCEEDED, FAILED = "succeeded", "failed"
GPU: t.Final[Mapping[str, str]] = {
    "utilization": "avg by (modelName) (DCGM_FI_DEV_GPU_UTIL)",
    "power_w": "sum by (modelName) (DCGM_FI_DEV_POWER_USAGE)",
    "temperature_c": "max by (modelName) (DCGM_FI_DEV_GPU_TEMP)"}
"""Queries for all GPUs of a model that DCGM sees: the mean utilization in percent, the sum of the
power in watts, and the highest temperature in °C."""
_Found = list[tuple[Mapping[str, str], Points]]


class NotReadable(Exception):
    """Prometheus did not answer a query. The message has no address."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The recorded parts of a history."""

    series: list[Series]
    attaches: Points
    failures: Points
    gpu: list[Json] = field(default_factory=list)
    cut: int = 0


class Prometheus:
    """A Prometheus. ``url``: http or https, with an optional path before that of the API.

    Raise BadAuthority if the certificates of this host cannot be read.
    """

    def __init__(self, url: str) -> None:
        context = client_context() if url.startswith("https://") else None
        self._client = HttpClient(url, context=context, kept=2)

    def read(self, span: Span, *, gpu: bool) -> Recorded:
        """Return what was recorded in a span. ``gpu``: read DCGM's metrics, too. Raise NotReadable."""
        devices = self._range(DEVICES, span)
        series = [Series(labels.get("state", ""), labels.get("model", ""), _number(labels.get("fabric")), points)
                  for labels, points in devices]
        waiting = [Series("waiting", "", None, points) for _labels, points in self._range(WAITING, span)]
        kept = sorted(series, key=lambda each: (each.model, each.fabric or 0, each.state))[:MOST_SERIES]
        return Recorded([*kept, *waiting], self._attempts(SUCCEEDED, span), self._attempts(FAILED, span),
                        self._gpu(span) if gpu else [], max(0, len(series) - MOST_SERIES))

    def _attempts(self, outcome: str, span: Span) -> Points:
        """Return the attaches of each step. An increase needs two scrapes, so a short step has the mean
        of a longer window."""
        window = max(span.step, SHORTEST_WINDOW)
        found = self._range(ATTEMPTS.format(outcome, window), span)
        return [(at, round(value * span.step / window, 3)) for _labels, points in found for at, value in points]

    def _gpu(self, span: Span) -> list[Json]:
        models: dict[str, Json] = {}
        for name, query in GPU.items():
            for labels, points in self._range(query, span)[:MOST_SERIES]:
                model = labels.get("modelName", "")
                models.setdefault(model, {"model": model, **{each: [] for each in GPU}})[name] = points
        return [models[model] for model in sorted(models)]

    def _range(self, query: str, span: Span) -> _Found:
        """Return labels and points of each series of a query."""
        start = math.ceil(span.since / span.step) * span.step
        path = "/api/v1/query_range?" + urlencode(
            {"query": query, "start": f"{start:.0f}", "end": f"{span.until:.3f}", "step": f"{span.step:.0f}"})
        try:
            answer = self._client.request("GET", path, {}, None, TIMEOUTS)
            told = json.loads(answer.body) if answer.status == 200 else {}
            if told.get("status") != "success":
                raise NotReadable(f"it answered with status {answer.status}")
            return [({str(name): str(value) for name, value in each["metric"].items()}, _points(each["values"]))
                    for each in told["data"]["result"]]
        except NoResponse as error:
            raise NotReadable(f"it did not answer: {error}") from None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise NotReadable(f"its answer cannot be read: {type(error).__name__}") from None


def _points(values: list[t.Any]) -> Points:
    found = ((float(at), float(value)) for at, value in values)
    return [(at, value) for at, value in found if math.isfinite(value)]


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


