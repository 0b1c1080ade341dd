# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes `detach` and `drain_and_detach` take, and what they say about one that the cluster does not have."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played
from ansible_collections.composable.infra.tests.integration.playbooks.unserved_kinds_support import Clusters
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

TASKS = ROOT / "playbooks/tasks"
CONFIG: Json = {"device_info": [], "fabric": {"endpoint": "https://m.example", "tenant": "t", "username": "u",
                                              "password": "p", "realm": "r", "client_id": "c", "client_secret": "s"}}
# What a survey or a variable gives, and the names in it.
GIVEN: t.Final[dict[str, tuple[t.Any, list[str]]]] = {
    "lines": ("node-0\nnode-1\n", ["node-0", "node-1"]), "commas": ("node-0, node-1", ["node-0", "node-1"]),
    "both": ("node-0,node-1 ,\n node-0", ["node-0", "node-1"]), "list": (["node-0", "node-1"], ["node-0", "node-1"]),
    "one": ("node-1", ["node-1"])}
WITHOUT = {"none": "", "commas only": " , \n", "no nodes": []}


def nodes(count: int) -> Json:
    """Return the nodes of a cluster."""
    return {"nodes": [{"metadata": {"name": f"node-{n}"}} for n in range(count)]}


def included(*names: str) -> Json:
    """Return a task with the files of tasks."""
    return {"block": [{"ansible.builtin.include_tasks": str(TASKS / f"{name}.yml")} for name in names]}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """The beginning of the playbooks on clusters with nodes."""
    clusters = Clusters(tmp_path_factory.mktemp("clusters"))
    kubeconfig = str(clusters.folder / "{}.kubeconfig")
    for key, value in {**{key: value for key, (value, _names) in GIVEN.items()}, **WITHOUT}.items():
        clusters.ask(key, included("settings"))
        clusters.questions[key].variables["given"] = {"config": CONFIG, "detach_nodes": value}
    for key, count, names in (("unknown", 3, "node-0, node-9"), ("many", 30, "node-x"), ("empty", 0, "node-0"),
                              ("closed", 3, "node-8")):
        clusters.ask(key, included("settings", "limit" if key == "closed" else "known_nodes"), holds=nodes(count),
                     detach_closed=True)
        clusters.questions[key].variables["given"] = {
            "config": CONFIG, "detach_nodes": names, "kubeconfig": kubeconfig.format(len(clusters.apis))}
    return clusters.answers()


@pytest.mark.parametrize("key", GIVEN)
def test_names_are_separated_by_lines_blanks_and_commas(answers: dict[str, Played], key: str) -> None:
    assert answers[key].failures == []
    assert answers[key].result("Set the names of the nodes")["ansible_facts"]["detach_names"] == GIVEN[key][1]


@pytest.mark.parametrize("key", WITHOUT)
def test_no_name_is_refused(answers: dict[str, Played], key: str) -> None:
    assert answers[key].failures == ["composable_detach_nodes: is missing: give the names of the nodes"]


@pytest.mark.parametrize(("key", "sentence"), [
    ("unknown", "composable_detach_nodes: node-9 is not usable: the cluster has node-0, node-1, node-2"),
    ("closed", "composable_detach_nodes: node-8 is not usable: the cluster has node-0, node-1, node-2"),
    ("empty", "composable_detach_nodes: node-0 is not usable: the cluster has no nodes")])
def test_a_node_that_the_cluster_does_not_have_is_named(answers: dict[str, Played], key: str, sentence: str) -> None:
    assert answers[key].failures == [sentence]


def test_of_many_nodes_some_are_named(answers: dict[str, Played]) -> None:
    (sentence,) = answers["many"].failures
    assert sentence.endswith("node-26 and 10 more")


@pytest.mark.parametrize("book", ["tasks/detach.yml", "drain_and_detach.yml"])
def test_nodes_are_looked_at_before_anything_is_done(book: str) -> None:
    text = (ROOT / "playbooks" / book).read_text(encoding="utf-8")
    assert -1 < text.index("settings.yml") < text.index("known_nodes.yml") < text.index("limit.yml")
    drain = "  kubernetes.core.k8s_drain:"
    assert text.index("known_nodes.yml") < (text + drain).index(drain)
