# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of the collection that runs, for the metrics and the traces."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from pathlib import Path

import yaml
from prometheus_client.core import GaugeMetricFamily

from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.metrics import PREFIX

ROOT = Path(__file__).parents[1]
UNKNOWN = "unknown"
BUILD_INFO = f"{PREFIX}build_info"
HELP = "Always 1. The labels have the versions of the collection and of Python."


def version(root: Path = ROOT) -> str:
    """Return the version of the collection below ``root``, "unknown" if there is none.

    An installed collection has it in MANIFEST.json, a checkout in galaxy.yml.
    """
    return _told("version", root) or UNKNOWN


def documentation(root: Path = ROOT) -> str:
    """Return the address of the project's folder docs, empty if no file names it."""
    return _told("documentation", root)


def _told(field: str, root: Path) -> str:
    try:
        return str(json.loads((root / "MANIFEST.json").read_text(encoding="utf-8"))["collection_info"][field])
    except (OSError, ValueError, LookupError, TypeError):
        pass
    try:
        return str(yaml.safe_load((root / "galaxy.yml").read_text(encoding="utf-8"))[field])
    except (OSError, yaml.YAMLError, LookupError, TypeError):
        return ""


class BuildInfo:
    """A collector of prometheus_client with one series."""

    def __init__(self) -> None:
        self._labels = (version(), platform.python_version())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metric."""
        family = GaugeMetricFamily(BUILD_INFO, HELP, labels=("version", "python"))
        family.add_metric(self._labels, 1.0)
        yield family
