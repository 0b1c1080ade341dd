# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is returned of a fabric: parts, filters, order, and no question that was not needed."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils import query
from ansible_collections.composable.infra.plugins.module_utils.fabric.desired import listing
from ansible_collections.composable.infra.plugins.module_utils.fabric.desired.listing import PARTS, Question
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    BadConfiguration,
    Missing,
    Unavailable,
)
from ansible_collections.composable.infra.tests.unit.fabric.desired.fake_manager import ABLE, A, B, FakeManager, devices

LISTS = replace(ABLE, lists_free=True)


@pytest.fixture
def fake() -> FakeManager:
    made = FakeManager.of({"n1": 1, "n0": 1, "n2": 2, "alone": None}, devices(A, 4), devices(B, 2), devices(A, 2, 2))
    made.put("n0", A, 2)
    made.put("n2", A, 1, health="Critical")
    return made


def ask(fake: FakeManager, *parts: str, models: tuple[str, ...] = (), machine: str | None = None,
        filters: dict[str, t.Any] | None = None, **more: t.Any) -> dict[str, t.Any]:
    picked = {name: frozenset(values) for name, values in {**(filters or {}), **more}.items()}
    return listing.ask(fake, Question(frozenset(parts or PARTS), models, machine, picked))


def test_machines_by_name_with_their_devices(fake: FakeManager) -> None:
    found = ask(fake, "machines")["machines"]
    assert [(m["name"], m["fabric"], len(m["devices"])) for m in found] == [
        ("alone", None, 0), ("n0", 1, 2), ("n1", 1, 0), ("n2", 2, 1)]
    assert found[1]["devices"][0] == {
        "uid": f"1/{A}/0", "model": A, "kind": "gpu", "fabric": 1, "machine": "uid-n0", "state": "attached",
        "health": "OK", "serial": None, "name": None, "size": None, "box": None, "shared": False}


def test_only_the_parts_that_were_asked_for(fake: FakeManager) -> None:
    assert set(ask(fake, "links")) == {"links", "problems"}
    assert set(ask(fake)) == {*PARTS, "problems"}


def test_links(fake: FakeManager) -> None:
    assert ask(fake, "links")["links"][-1] == {
        "fabric": 2, "machine": "uid-n2", "name": "n2", "device": f"2/{A}/0", "model": A, "state": "attached"}


def test_free_counts_of_the_models_asked_for(fake: FakeManager) -> None:
    assert ask(fake, "free", models=(B, A))["free"] == [
        {"model": A, "fabric": 1, "free": 2}, {"model": A, "fabric": 2, "free": 1},
        {"model": B, "fabric": 1, "free": 2}, {"model": B, "fabric": 2, "free": 0}]
    assert ask(fake, "free")["free"] == []


def test_all_free_devices_where_they_are_listed(fake: FakeManager) -> None:
    fake.able = LISTS
    assert ask(fake, "free")["free"] == [
        {"model": A, "fabric": 1, "free": 2}, {"model": A, "fabric": 2, "free": 1},
        {"model": B, "fabric": 1, "free": 2}]
    assert len(ask(fake, "devices")["devices"]) == 8
    assert [d["uid"] for d in ask(fake, "devices", model=[B])["devices"]] == [f"1/{B}/0", f"1/{B}/1"]
    assert len(ask(fake, "devices", state=["free"])["devices"]) == 5


def test_attached_devices_where_free_ones_are_only_counted(fake: FakeManager) -> None:
    assert [d["machine"] for d in ask(fake, "devices")["devices"]] == ["uid-n0", "uid-n0", "uid-n2"]


@pytest.mark.parametrize(("filters", "machines", "links"), [
    ({"fabric": [1]}, ["n0", "n1"], 2), ({"machine": ["n0", "uid-n2"]}, ["n0", "n2"], 3),
    ({"health": ["Critical", "Warning"]}, ["n2"], 1), ({"model": [B]}, [], 0), ({"kind": ["gpu"]}, ["n0", "n2"], 3),
    ({"fabric": [2], "model": [A]}, ["n2"], 1), ({"machine": ["nobody"]}, [], 0), ({"fabric": [7]}, [], 0),
])
def test_filters(fake: FakeManager, filters: dict[str, t.Any], machines: list[str], links: int) -> None:
    found = ask(fake, filters=filters)
    assert [m["name"] for m in found["machines"]] == machines
    assert len(found["links"]) == links


def test_fabric_filters_free_counts(fake: FakeManager) -> None:
    assert ask(fake, "free", models=(A,), fabric=[2])["free"] == [{"model": A, "fabric": 2, "free": 1}]


def test_one_machine_is_asked_for_alone(fake: FakeManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake, "snapshot", None)
    found = ask(fake, machine="uid-n0", models=(A, B))
    assert [m["name"] for m in found["machines"]] == ["n0"]
    assert found["free"] == [{"model": A, "fabric": 1, "free": 2}, {"model": B, "fabric": 1, "free": 2}]
    assert ask(fake, machine="n2")["machines"][0]["uid"] == "uid-n2"
    assert ask(fake, machine="alone", models=(A,))["free"] == []


def test_count_that_cannot_be_had_is_a_problem_and_the_rest_is_there(
    fake: FakeManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def free(machine: str, model: str) -> int:
        raise Unavailable("not now")

    monkeypatch.setattr(fake, "free", free)
    found = ask(fake, machine="n0", models=(A,))
    assert (found["problems"], len(found["machines"])) == ({f"{A}/1": "not now"}, 1)


def test_unknown_machine(fake: FakeManager) -> None:
    with pytest.raises(Missing, match=r"machine: the CDI Manager knows no machine n9\. Allowed are n1"):
        ask(fake, machine="n9")


def test_query(fake: FakeManager) -> None:
    assert query.search(ask(fake), "machines[?length(devices)>`1`].name") == ["n0"]


@pytest.mark.parametrize("bad", ["machines[", "unknown(machines)", "length(`1`)"])
def test_bad_query_is_one_sentence(fake: FakeManager, bad: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        query.search(ask(fake), bad)
    assert str(refused.value).startswith(f"query: {bad!r} is not allowed. It must be a JMESPath expression: ")
    assert "\n" not in str(refused.value)


def test_query_without_jmespath_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "HAS_JMESPATH", False)
    with pytest.raises(BadConfiguration, match=r"query: 'a' is not allowed\. It needs the Python library jmespath"):
        query.search({}, "a")
