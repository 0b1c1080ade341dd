# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Continuous integration tests each supported pair of ansible-core and Python, and no other."""

from __future__ import annotations

import itertools

import yaml

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

# Oldest and newest Python 3 of a control node, by minor version.
# https://docs.ansible.com/ansible/latest/reference_appendices/release_and_maintenance.html
CONTROL_NODE = {
    "2.16": (10, 12),
    "2.17": (10, 12),
    "2.18": (11, 13),
    "2.19": (11, 13),
    "2.20": (12, 14),
    "2.21": (12, 14),
}
# The versions that tools/setup/find_python.sh accepts.
OURS = ("3.11", "3.12", "3.13")


def test_matrix() -> None:
    workflow = ROOT / ".github" / "workflows" / "test.yml"
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    matrix = jobs["cores"]["strategy"]["matrix"]
    left_out = {(pair["core"], pair["python"]) for pair in matrix["exclude"]}
    pairs = set(itertools.product(matrix["core"], matrix["python"])) - left_out
    supported = {(f"stable-{core}", python) for core, (oldest, newest) in CONTROL_NODE.items()
                 for python in OURS if oldest <= int(python[2:]) <= newest}
    assert pairs == supported | {("devel", OURS[-1])}


def test_the_oldest_core_is_that_of_the_collection() -> None:
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text(encoding="utf-8"))
    assert runtime["requires_ansible"] == f">={next(iter(CONTROL_NODE))}.0"
