# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group without hosts where hosts are to be worked on is a failure that says so, before anything is done."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.tests.e2e.support.played import Played, play

WORDS = "The group gpu_nodes of the inventory has no host"


Run = Callable[..., Played]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``run("verify", composable_bootstrap_hosts=False)``: a shipped playbook against a cluster that is not there.

    Two tests with the same arguments share one run.
    """
    done: dict[str, Played] = {}

    def run(name: str, **variables: t.Any) -> Played:
        key = f"{name} {sorted(variables.items())}"
        if key not in done:
            folder = tmp_path_factory.mktemp(name)
            (folder / "inventory").write_text("[gpu_nodes]\n", encoding="utf-8")
            given = {"composable_kubeconfig": "/nowhere/kubeconfig", **variables}
            done[key] = play(folder, f"composable.infra.{name}", given, "-i", str(folder / "inventory"))
        return done[key]

    return run


@pytest.mark.parametrize(("name", "given", "way_out"), [
    ("bootstrap", {}, "composable_bootstrap_hosts"),
    ("bootstrap", {"composable_bootstrap_parts": ["node_prepare"]}, "composable_bootstrap_hosts"),
    ("bootstrap", {"composable_bootstrap_hosts": True, "composable_bootstrap_parts": ["nfd"]},
     "composable_bootstrap_hosts"),
    ("uninstall", {"composable_uninstall_hosts": "true"}, "composable_uninstall_hosts"),
])
def test_it_fails_before_anything(run: Run, name: str, given: dict[str, t.Any], way_out: str) -> None:
    found = run(name, **given)
    assert found.status != 0
    (told,) = found.failures
    assert told.startswith(WORDS)
    assert f"set {way_out} to false" in told
    assert found.changed == []


@pytest.mark.parametrize(("name", "given"), [
    ("bootstrap", {"composable_bootstrap_hosts": False}), ("bootstrap", {"bootstrap_parts": ["gpu_sharing"]}),
    ("uninstall", {}), ("preflight", {}), ("verify", {}),
])
def test_where_no_host_is_asked_for_it_goes_on(run: Run, name: str, given: dict[str, t.Any]) -> None:
    """It fails only where it asks the cluster."""
    found = run(name, **given)
    assert found.status != 0
    assert [text for text in found.failures if WORDS in text] == []
    assert "/nowhere/kubeconfig" in "".join(found.failures) + found.output


@pytest.mark.parametrize("name", ["preflight", "verify"])
def test_a_check_says_that_it_looks_at_no_host(run: Run, name: str) -> None:
    assert WORDS in str(run(name).result("Say when only the cluster is checked")["msg"])
