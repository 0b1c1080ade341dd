# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A group without hosts where hosts are to be worked on is a failure that says so, before anything is done."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.tests.e2e.support.played import Played, play

# Nobody answers on the first port.
CLOSED = "worker-1 ansible_host=127.0.0.1 ansible_port=1"
WORDS = "The group gpu_nodes of the inventory has no host"


Run = Callable[..., Played]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``run("verify", composable_bootstrap_hosts=False)``: a shipped playbook against a cluster that is not there.

    ``host``: a line of the inventory. Two tests with the same arguments share one run.
    """
    done: dict[str, Played] = {}

    def run(name: str, host: str = "", **variables: t.Any) -> Played:
        key = f"{name} {host} {sorted(variables.items())}"
        if key not in done:
            folder = tmp_path_factory.mktemp(name)
            (folder / "inventory").write_text(f"[gpu_nodes]\n{host}\n", encoding="utf-8")
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
    assert WORDS in str(run(name).result("Report that only the cluster is checked")["msg"])


def test_an_unreachable_host_is_tried_once(run: Run) -> None:
    done = run("preflight", CLOSED)
    tried = [host["msg"] for play_ in done.document["plays"] for task in play_["tasks"]
             for host in task["hosts"].values() if host.get("unreachable")]
    assert len(tried) == 1, tried


def test_hosts_that_are_prepared_in_another_way_are_left_alone(run: Run) -> None:
    done = run("bootstrap", CLOSED, composable_bootstrap_hosts=False)
    assert "worker-1" not in {name for play_ in done.document["plays"] for task in play_["tasks"]
                              for name, host in task["hosts"].items() if not host.get("skipped")}
    assert "/nowhere/kubeconfig" in "".join(done.failures) + done.output


@pytest.mark.parametrize(("name", "given", "words"), [
    ("bootstrap", {"composable_bootstrap_parts": ["controler"]},
     "composable_bootstrap_parts: 'controler' is not allowed"),
    ("plan", {"composable_conf_path": "config.yml"}, "Did you mean composable_config_path?")])
def test_a_misspelt_variable_ends_it_first(run: Run, name: str, given: dict[str, t.Any], words: str) -> None:
    done = run(name, **given)
    (told,) = done.failures
    assert words in told
    assert "/nowhere/kubeconfig" not in told
