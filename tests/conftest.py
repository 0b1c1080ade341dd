# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every test can use: the lab's fixtures, a repeatable random source, and markers set by folder."""

from __future__ import annotations

import importlib.util
import os
import random
import signal
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LAB_PLUGIN = "ansible_collections.composable.infra.lab.pytest_plugin"
SEED = "TEST_SEED"
MARKED_FOLDERS = ("integration", "e2e")
# Files and folders of tests that open gRPC sockets.
GRPC = tuple(TESTS / "unit" / name for name in (
    "controller/agent/kubelet_plugin", "controller/autoscaler", "controller/wire", "lab/real_nodes/test_plugin.py"))


def importable(module: str) -> bool:
    """Whether the module exists, without importing more than its parents."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


pytest_plugins = [LAB_PLUGIN] if importable(LAB_PLUGIN) else []


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed once, before worker processes inherit it; let children see Ctrl-C even in a background job."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault(SEED, str(random.SystemRandom().randrange(2**32)))


def pytest_report_header(config: pytest.Config) -> str:
    """Say how to repeat this run's random choices."""
    return f"seed: {os.environ[SEED]} (again: {SEED}={os.environ[SEED]})"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the folder that they are in."""
    for item in items:
        if item.path.is_relative_to(TESTS):
            folder = item.path.relative_to(TESTS).parts[0]
            if folder in MARKED_FOLDERS:
                item.add_marker(folder)
        if any(item.path.is_relative_to(place) for place in GRPC):
            item.add_marker("grpc")


@pytest.fixture
def seed() -> int:
    """The run's seed, printed so that a failure shows how to repeat it."""
    print(f"{SEED}={os.environ[SEED]}")
    return int(os.environ[SEED])


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """A random source of the test's own: the same for the same seed, whichever other tests run."""
    return random.Random(f"{seed} {request.node.nodeid}")
