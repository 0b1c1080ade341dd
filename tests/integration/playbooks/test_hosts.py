# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group without hosts where hosts are to be worked on is a failure that says so, before anything is done."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.e2e.support.played import Played, play

WORDS = "The group gpu_nodes of the inventory has no host"


def run(folder: Path, name: str, **variables: t.Any) -> Played:
    """A shipped playbook against a cluster that is not there."""
    (folder / "inventory").write_text("[gpu_nodes]\n", encoding="utf-8")
    return play(folder, f"composable.infra.{name}", {"composable_kubeconfig": "/nowhere/kubeconfig", **variables},
                "-i", str(folder / "inventory"))


@pytest.mark.parametrize(("name", "given", "way_out"), [
    ("bootstrap", {}, "composable_bootstrap_hosts"),
    ("bootstrap", {"composable_bootstrap_parts": ["node_prepare"]}, "composable_bootstrap_hosts"),
    ("bootstrap", {"composable_bootstrap_hosts": True, "composable_bootstrap_parts": ["nfd"]},
     "composable_bootstrap_hosts"),
    ("uninstall", {"composable_uninstall_hosts": "true"}, "composable_uninstall_hosts"),
])
def test_it_fails_before_anything(tmp_path: Path, name: str, given: dict[str, t.Any], way_out: str) -> None:
    found = run(tmp_path, name, **given)
    assert found.status != 0
    (told,) = found.failures
    assert told.startswith(WORDS)
    assert f"set {way_out} to false" in told
    assert found.changed == []


@pytest.mark.parametrize(("name", "given"), [
    ("bootstrap", {"composable_bootstrap_hosts": False}), ("bootstrap", {"bootstrap_parts": ["gpu_sharing"]}),
    ("uninstall", {}), ("preflight", {}), ("verify", {}),
])
def test_where_no_host_is_asked_for_it_goes_on(tmp_path: Path, name: str, given: dict[str, t.Any]) -> None:
    """It fails only where it asks the cluster."""
    found = run(tmp_path, name, **given)
    assert found.status != 0
    assert [text for text in found.failures if WORDS in text] == []
    assert "/nowhere/kubeconfig" in "".join(found.failures) + found.output


@pytest.mark.parametrize("name", ["preflight", "verify"])
def test_a_check_says_that_it_looks_at_no_host(tmp_path: Path, name: str) -> None:
    assert WORDS in str(run(tmp_path, name).result("Say when only the cluster is checked")["msg"])
