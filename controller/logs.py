# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log lines for people or for a collector."""

from __future__ import annotations

import argparse
import json
import logging
import time

from ansible_collections.composable.infra.plugins.module_utils.kube.objects.claim_ref import ClaimRef

# By a name of its own, by the names of the modules, and the SDK that sends traces.
LOGGERS = ("composable.infra", "ansible_collections.composable.infra", "opentelemetry")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, message, and where the record has them reason, about, claim and uid."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        entry = {"time": _utc(record.created), "level": record.levelname.lower(), "message": record.getMessage()}
        for name in ("reason", "about"):
            if value := getattr(record, name, None):
                entry[name] = value
        entry |= _claims(record)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """Time in UTC with milliseconds, level, message; then ``claim=<namespace>/<name> uid=<uid>`` of the ResourceClaim
    that it is about, with commas between several."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        about = "".join(f" {name}={value}" for name, value in _claims(record).items())
        return f"{_utc(record.created)} {record.levelname:<7} {record.getMessage()}{about}"


def _claims(record: logging.LogRecord) -> dict[str, str]:
    """The claims that a record has in ``claims``: their names and their uids, in the same order."""
    found: tuple[ClaimRef, ...] = tuple(getattr(record, "claims", ()))
    if not found:
        return {}
    return {"claim": ",".join(claim.key for claim in found), "uid": ",".join(claim.uid for claim in found)}


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """The options by which a program of the controller says how it logs."""
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="default: %(default)s")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info",
                        help="default: %(default)s")


def set_up_logging(kind: str, level: str) -> None:
    """Log to standard error as ``text`` or ``json``."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if kind == "json" else TextFormatter())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level.upper())
        logger.propagate = False
