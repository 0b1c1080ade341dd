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

# The loggers of our programs, of the modules, and of the SDK that sends traces.
LOGGERS = ("composable.infra", "ansible_collections.composable.infra", "opentelemetry")


class JsonFormatter(logging.Formatter):
    """Write each record as one JSON object in one line.

    It has time, level and message, and if the record has them, reason, about, claim and uid.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        entry = {"time": _utc(record.created), "level": record.levelname.lower(), "message": record.getMessage()}
        for name in ("reason", "about"):
            if value := getattr(record, name, None):
                entry[name] = value
        entry |= _claims(record)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """Write the time in UTC with milliseconds, the level and the message.

    If the record is about ResourceClaims, ``claim=<namespace>/<name> uid=<uid>`` follows, with
    commas between several.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        about = "".join(f" {name}={value}" for name, value in _claims(record).items())
        return f"{_utc(record.created)} {record.levelname:<7} {record.getMessage()}{about}"


def _claims(record: logging.LogRecord) -> dict[str, str]:
    """Return the names and uids of the claims of a record, in the same order, joined by commas."""
    found: tuple[ClaimRef, ...] = tuple(getattr(record, "claims", ()))
    if not found:
        return {}
    return {"claim": ",".join(claim.key for claim in found), "uid": ",".join(claim.uid for claim in found)}


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the format and the level of the log."""
    parser.add_argument("--log-format", choices=("text", "json"), default="text",
                        help="format of the log (default: %(default)s)")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info",
                        help="lowest level of the lines in the log (default: %(default)s)")


def set_up_logging(kind: str, level: str) -> None:
    """Log to standard error. ``kind``: ``text`` or ``json``. ``level``: such as ``info``."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if kind == "json" else TextFormatter())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level.upper())
        logger.propagate = False
