# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the tracer that a program's command line and environment request."""

from __future__ import annotations

import logging
import os
import socket
import typing as t

from ansible_collections.composable.infra.controller.build import version
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig

from .settings import TraceSettings, trace_settings

if t.TYPE_CHECKING:
    from ansible_collections.composable.infra.controller.tracing.exporter import OtlpTracer

log = logging.getLogger("composable.infra")


def start_tracer(endpoint: str | None, service: str) -> OtlpTracer | None:
    """Start the tracer of a program.

    ``endpoint``: of the option. ``service``: the program's name in its traces. Return None if no
    traces are wanted, or if their variables cannot be used, which a warning reports. Raises
    BadConfig if the option cannot be used, also because OpenTelemetry's SDK is not installed.
    """
    build = version()
    settings, problem = trace_settings(endpoint, os.environ, service, build)
    if settings is not None:
        settings.resource.setdefault("service.instance.id", socket.gethostname())
        try:
            return _started(settings, build)
        except ImportError as error:
            problem = ("traces need the Python packages opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http "
                       f"({error}). Install both, or switch traces off")
            if endpoint is not None:
                raise BadConfig(f"--otlp-endpoint: {problem}") from None
        except ValueError as error:
            problem = str(error)
    if problem:
        log.warning("no traces are sent: %s", problem)
    return None


def _started(settings: TraceSettings, build: str) -> OtlpTracer:
    # Only a program that sends traces needs the SDK and waits for its import.
    from ansible_collections.composable.infra.controller.tracing.exporter import OtlpTracer

    tracer = OtlpTracer(settings, build)
    log.info("Traces are sent to %s", settings.url)
    return tracer
