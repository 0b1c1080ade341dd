# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps what explains a failed test: report, logs of all parts, all objects of the cluster, each node's kernel log."""

from __future__ import annotations

import json
import shutil
import typing as t
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.tests.e2e.support.support import told
from ansible_collections.composable.infra.tools.end_to_end import EVIDENCE, folder_name

Kind = t.TypeVar("Kind")


def keep(item: pytest.Item, report: pytest.TestReport) -> None:
    """Write the evidence of a failed test into a folder of its name below `.cache/evidence`.

    A test that fails when it is torn down may have removed its folders already.
    """
    folder = EVIDENCE / folder_name(item.nodeid)
    folder.mkdir(parents=True, exist_ok=True)
    sections = [f"--- {title}\n{text}" for title, text in report.sections]
    (folder / f"{report.when}.txt").write_text("\n".join([report.longreprtext, *sections]), encoding="utf-8")
    for name, source in sources(item):
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=only_logs, dirs_exist_ok=True, ignore_dangling_symlinks=True)
    for lab in labs(item):
        (folder / "objects.json").write_text(told(partial(objects, lab)), encoding="utf-8")


def sources(item: pytest.Item) -> Iterator[tuple[str, Path]]:
    """Folders with logs: those of the processes of stages, of the components, and of the nodes."""
    for stage in used(item, Stage):
        yield "stage", stage.folder
    for lab in labs(item):
        yield "components", lab.state_dir / "logs"
        for node in lab.nodes[:8]:
            if (lab.node_folder(node) / "dev").is_dir():
                yield node, lab.node_folder(node) / "dev"


def only_logs(folder: str, names: list[str]) -> set[str]:
    """Names to leave out: secrets, sockets, devices. Kept are logs and the kernel log of a node."""
    return {name for name in names if not name.endswith(".log") and name != "kmsg"}


def objects(lab: Lab) -> str:
    """All objects of the API server but Secrets, as JSON."""
    found = lab.snapshot().objects()
    found.pop("/api/v1/secrets", None)
    return json.dumps(found, indent=1)


def labs(item: pytest.Item) -> list[Lab]:
    """Labs that the test used."""
    return [*used(item, Lab), *(stage.lab for stage in used(item, Stage))]


def used(item: pytest.Item, kind: type[Kind]) -> list[Kind]:
    """Fixtures of a type that the test used."""
    return [each for each in getattr(item, "funcargs", {}).values() if isinstance(each, kind)]
