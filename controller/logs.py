# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log lines for people or for a collector."""

from __future__ import annotations

import argparse
import json
import logging
import time

# By a name of its own, and by the names of the modules.
LOGGERS = ("composable.infra", "ansible_collections.composable.infra")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, message, and reason and about where the record has them."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        entry = {"time": _utc(record.created), "level": record.levelname.lower(), "message": record.getMessage()}
        for name in ("reason", "about"):
            if value := getattr(record, name, None):
                entry[name] = value
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """Time in UTC with milliseconds, level, message."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return f"{_utc(record.created)} {record.levelname:<7} {record.getMessage()}"


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
