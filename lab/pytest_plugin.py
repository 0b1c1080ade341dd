# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labs as pytest fixtures:
`pytest_plugins = ["ansible_collections.composable.infra.lab.pytest_plugin"]`.

Every lab runs in the foreground of the test process, so that no part of it remains after that
process.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.composable.infra.lab.binaries.releases import DEFAULT_SERIES
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab, LabOptions

LabFactory = Callable[..., Lab]
VERSION_VARIABLE = "LAB_KUBERNETES"


@pytest.fixture(scope="session")
def lab_factory(request: pytest.FixtureRequest) -> Iterator[LabFactory]:
    """Start labs: `lab_factory(nodes=4, binding_timeout=30)`, with keywords as in LabOptions.

    Each lives until the end of the session or its `down()`. LAB_KUBERNETES selects the release.
    """
    started: list[Lab] = []

    def start(**options: Any) -> Lab:
        options.setdefault("kubernetes", os.environ.get(VERSION_VARIABLE, DEFAULT_SERIES))
        lab = Lab.up(LabOptions(**options), lambda line: print(line, file=sys.stderr))
        started.append(lab)
        return lab

    yield start
    for lab in reversed(started):
        lab.down()


@pytest.fixture(scope="session")
def lab(lab_factory: LabFactory) -> Lab:
    """One lab with two nodes for the whole session."""
    return lab_factory(nodes=2)


@pytest.fixture
def lab_namespace(lab: Lab) -> Iterator[str]:
    """Create a namespace for one test that is ready for pods, and delete it afterwards."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    lab.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    lab.processes.wait_until("the namespace's service account", lambda: lab.api.exists(account), 30)
    yield name
    lab.api.request("DELETE", f"/api/v1/namespaces/{name}")
