# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts the tracer that a program's command line and environment ask for."""

from __future__ import annotations

import logging
import os
import socket

from ansible_collections.composable.infra.controller.build import version

from .exporter import OtlpTracer
from .settings import trace_settings

log = logging.getLogger("composable.infra")


def start_tracer(endpoint: str | None, service: str) -> OtlpTracer | None:
    """The tracer of a program, named ``service`` in its traces; None where no traces are wanted. ``endpoint``: of the
    option. Raises BadConfig for an option or a proxy that cannot be used."""
    build = version()
    settings, problem = trace_settings(endpoint, os.environ, service, build)
    if problem:
        log.warning("%s", problem)
    if settings is None:
        return None
    settings.resource.setdefault("service.instance.id", socket.gethostname())
    log.info("traces are sent to %s", settings.url)
    return OtlpTracer(settings, build)
